// expect: gx: not a Survival: no 'static constexpr bool continues'
#include <gx/survival/concept.hpp>

static_assert(gx::explain_survival<int>());
