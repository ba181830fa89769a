// expect: gx: not a Model: no text 'name'
#include <gx/model/concept.hpp>

static_assert(gx::explain_model<int>());
