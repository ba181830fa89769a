// expect: gx: not a Reducer: no 'static constexpr int staleness'
#include <gx/testing/conformance.hpp>

struct Half {
    using wire_type = gx::fp32;
    void reserve(const gx::ReducePlan&) {}
    gx::ReduceReport all_reduce(gx::Transport auto&, const gx::Bucket&) { return {}; }
    gx::StateList state() { return {}; }
};

int main() { return gx::testing::check<Half>(gx::testing::OnThreads{}).empty() ? 0 : 1; }
