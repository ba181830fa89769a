// expect: gx: not a Reducer: it has 'owns_update', and lacks
#include <gx/reducer/concept.hpp>

struct Half : gx::archetype::Reducer {
    static constexpr gx::UpdateOwnership owns_update{.in_parts = true};
};
static_assert(gx::explain_reducer<Half>());
