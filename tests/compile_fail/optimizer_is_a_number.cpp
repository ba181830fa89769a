// expect: gx: not an Optimizer: no aggregate 'Options' with defaults
#include <gx/optimizer/concept.hpp>

static_assert(gx::explain_optimizer<int>());
