// expect: gx: this is an Element where the Reducer is expected
// expect: Fix: name both, as in 'Ring<gx::fp16>'.
#include <gx/reducer/concept.hpp>

static_assert(gx::explain_reducer<gx::fp16>());
