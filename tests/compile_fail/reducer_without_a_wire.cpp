// expect: gx: not a Reducer: no element type 'wire_type'
// expect: Fix: add 'using wire_type = gx::fp32;' to the policy.
#include <gx/reducer/concept.hpp>

struct Wireless {};
static_assert(gx::explain_reducer<Wireless>());
