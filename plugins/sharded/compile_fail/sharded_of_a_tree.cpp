// expect: gx: Sharded needs a reducer that is a reduce-scatter and an all-gather
// expect: Fix: use Ring or MultiRing
#include <gx/reducer/collective_reducer.hpp>
#include <gx/collective/tree.hpp>
#include <gx/sharded/reducer.hpp>

struct OneTree {
    static constexpr int count = 1;
    static constexpr gx::collective::Tree make(gx::Placement placement, int) {
        return gx::collective::Tree(placement.ranks());
    }
};
using Tree = gx::CollectiveReducer<OneTree, gx::fp32, gx::DivideSplit>;
gx::Sharded<Tree> reducer;
