// The optimizers of the core, declared once.
#pragma once

#include <gx/core/role.hpp>  // Header

namespace gx {

class Adam;
class AdamW;
class Lamb;
class Lars;
class Sgd;
template <class O>
class ClipByGlobalNorm;
template <class O>
class WeightAverage;

namespace detail::role {  // what the error says where only this header is included
template <>
struct Header<Adam> {
    GX_DEFINED_IN("gx/optimizer/adam.hpp")
};
template <>
struct Header<AdamW> {
    GX_DEFINED_IN("gx/optimizer/adamw.hpp")
};
template <class O>
struct Header<ClipByGlobalNorm<O>> {
    GX_DEFINED_IN("gx/optimizer/clip_by_global_norm.hpp")
};
template <class O>
struct Header<WeightAverage<O>> {
    GX_DEFINED_IN("gx/optimizer/weight_average.hpp")
};
template <>
struct Header<Lamb> {
    GX_DEFINED_IN("gx/optimizer/lamb.hpp")
};
template <>
struct Header<Lars> {
    GX_DEFINED_IN("gx/optimizer/lars.hpp")
};
template <>
struct Header<Sgd> {
    GX_DEFINED_IN("gx/optimizer/sgd.hpp")
};
}  // namespace detail::role

}  // namespace gx
