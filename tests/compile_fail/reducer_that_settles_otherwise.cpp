// expect: gx: not a Reducer: its 'settle' is no 'void settle(uint64_t gradient, bool applied)'
#include <gx/reducer/concept.hpp>

struct Answers {
    using wire_type = gx::fp32;
    static constexpr int channels = 1;
    static constexpr int staleness = 0;
    static constexpr bool asynchronous = true;
    void reserve(const gx::ReducePlan&);
    gx::ReduceReport all_reduce(gx::Transport auto&, const gx::Bucket&);
    bool settle(std::uint64_t gradient, bool applied);
    gx::StateList state();
};

static_assert(gx::explain_reducer<Answers>());
