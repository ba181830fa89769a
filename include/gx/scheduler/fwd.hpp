// The schedulers of the core, declared once.
#pragma once

#include <gx/core/role.hpp>  // Header

namespace gx {

class Constant;
class Cosine;
class OneCycle;
class PiecewiseLinear;
class StepDecay;
template <class Next>
class LinearScaling;
template <int P>
class Poly;
template <class Next>
class Warmup;

namespace detail::role {  // what the error says where only this header is included
template <>
struct Header<Constant> {
    GX_DEFINED_IN("gx/scheduler/constant.hpp")
};
template <>
struct Header<Cosine> {
    GX_DEFINED_IN("gx/scheduler/cosine.hpp")
};
template <>
struct Header<OneCycle> {
    GX_DEFINED_IN("gx/scheduler/one_cycle.hpp")
};
template <>
struct Header<PiecewiseLinear> {
    GX_DEFINED_IN("gx/scheduler/piecewise_linear.hpp")
};
template <>
struct Header<StepDecay> {
    GX_DEFINED_IN("gx/scheduler/step_decay.hpp")
};
template <class Next>
struct Header<LinearScaling<Next>> {
    GX_DEFINED_IN("gx/scheduler/linear_scaling.hpp")
};
template <int P>
struct Header<Poly<P>> {
    GX_DEFINED_IN("gx/scheduler/poly.hpp")
};
template <class Next>
struct Header<Warmup<Next>> {
    GX_DEFINED_IN("gx/scheduler/warmup.hpp")
};
}  // namespace detail::role

}  // namespace gx
