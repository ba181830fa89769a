// The survivals of the core, declared once.
#pragma once

#include <gx/core/role.hpp>  // Header

namespace gx {

struct StopOnLoss;
class ContinueOnSurvivors;

namespace detail::role {  // what the error says where only this header is included
template <>
struct Header<StopOnLoss> {
    GX_DEFINED_IN("gx/survival/stop_on_loss.hpp")
};
template <>
struct Header<ContinueOnSurvivors> {
    GX_DEFINED_IN("gx/survival/continue_on_survivors.hpp")
};
}  // namespace detail::role

}  // namespace gx
