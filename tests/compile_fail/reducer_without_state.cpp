// expect: gx: not a Reducer: no 'StateList state()'
#include <gx/reducer/concept.hpp>

struct Forgetful {
    using wire_type = gx::fp32;
    static constexpr int channels = 1;
    static constexpr int staleness = 0;
    static constexpr bool asynchronous = true;
    void reserve(const gx::ReducePlan&);
    gx::ReduceReport all_reduce(gx::Transport auto&, const gx::Bucket&);
};

static_assert(gx::explain_reducer<Forgetful>());
