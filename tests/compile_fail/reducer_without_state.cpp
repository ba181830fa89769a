// expect: gx: not a Reducer: no 'span<float> state()'
#include <gx/reducer/concept.hpp>

struct Forgetful {
    using wire_type = gx::fp32;
    static constexpr int channels = 1;
    static constexpr int staleness = 0;
    static constexpr bool asynchronous = true;
    void reserve(gx::Placement, std::int64_t);
    gx::ReduceReport all_reduce(gx::Transport auto&, std::span<float>);
};

static_assert(gx::explain_reducer<Forgetful>());
