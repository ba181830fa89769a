// StopOnLoss: a lost rank ends the run.
#pragma once

#include <gx/survival/concept.hpp>  // Survival

namespace gx {

/// Every survivor throws an error that names the lost rank, and train() throws the first of them.
/// The run is resumed from its last checkpoint. The default.
struct StopOnLoss {
    static constexpr bool continues = false;
};
static_assert(explain_survival<StopOnLoss>());

}  // namespace gx
