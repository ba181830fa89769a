// expect: gx: not a Reducer: it cannot be moved
#include <mutex>

#include <gx/reducer/concept.hpp>

struct Locked {
    using wire_type = gx::fp32;
    static constexpr int channels = 1;
    static constexpr int staleness = 0;
    static constexpr bool asynchronous = true;
    void reserve(const gx::ReducePlan&);
    gx::ReduceReport all_reduce(gx::Transport auto&, const gx::Bucket&);
    gx::StateList state();
    std::mutex lock;
};

static_assert(gx::explain_reducer<Locked>());
