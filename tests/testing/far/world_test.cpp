// Reducers over far memory: the bits of threads, whatever order queued work runs in.
#include <gx/testing/far/world.hpp>

#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/parameter_server/reducer.hpp>
#include <gx/shared_memory/reducer.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/testing/worlds.hpp>
#include <gx/trees/double_tree.hpp>
#include <gx/trees/tree.hpp>
#include <gx/halving_doubling/reducer.hpp>
#include <gx/hierarchical/reducer.hpp>
#include <gx/recursive_doubling/reducer.hpp>

namespace {

using namespace gx;
using namespace gx::testing;

/// Rows after one reduction in far memory: copied in, reduced, copied out.
template <class R>
Rows reduce_far(Rows rows, Placement placement, std::uint64_t seed, QueueProgress progress) {
    FarWorld<> world({placement, seed, progress});
    const auto elements = static_cast<std::int64_t>(rows[0].size());
    world.run([&](auto& rank) {
        auto& row = rows[static_cast<std::size_t>(rank.rank())];
        Buffer<float> gradient(&rank.memory(), elements, "gradient");
        R reducer;
        ReducePlan plan = ReducePlan::whole(placement, elements);
        plan.memory = &rank.memory();
        reducer.reserve(plan);
        FarQueue& queue = rank.stream();
        const auto values = gradient.template view<FarMemory>();
        queue.copy_in(std::span<const float>(row), values, {"load"});
        const auto report = reducer.all_reduce(rank.transport(), BucketIn<FarMemory>(values));
        EXPECT_TRUE(report.complete());
        queue.copy_out(ViewIn<const float, FarMemory>(values), std::span(row), {"store"});
        EXPECT_TRUE(queue.wait(queue.record()).complete());
    });
    return rows;
}

template <class R>
class OverFarMemory : public ::testing::Test {};
using Reducers = ::testing::Types<Ring<fp32>, Ring<fp16>, MultiRing<2, bf16>,
                                  Bucketed<Ring<fp16>, 64>, Tree<fp16>, DoubleTree<3, fp16>,
                                  HalvingDoubling<fp32>, RecursiveDoubling<bf16>,
                                  Hierarchical<fp16>, Hierarchical<SharedMemory<>, Ring<fp16>>,
                                  ParameterServer<fp16>, ParameterServer<fp32>, SharedMemory<bf16>>;
TYPED_TEST_SUITE(OverFarMemory, Reducers);

TYPED_TEST(OverFarMemory, BitsAreThoseOfThreads) {
    for (const QueueProgress progress :
         {QueueProgress::late, QueueProgress::eager, QueueProgress::random}) {
        EXPECT_TRUE(rc::check("far equals threads", [&] {
            const Placement placement{*rc::gen::inRange(1, 4), *rc::gen::inRange(1, 3)};
            const auto count = *rc::gen::inRange<std::size_t>(0, 200);
            Rows rows(static_cast<std::size_t>(placement.ranks()));
            for (auto& row : rows)
                row = *rc::gen::container<std::vector<float>>(
                    count, rc::gen::map(rc::gen::inRange(-1000, 1000),
                                        [](int i) { return float(i) / 7; }));
            const Rows expected = reduce_jobs<TypeParam>(OnThreads{}, placement, {rows}).rows[0];
            const auto seed = *rc::gen::arbitrary<std::uint64_t>();
            RC_ASSERT(reduce_far<TypeParam>(rows, placement, seed, progress) == expected);
        }));
    }
}

TEST(FarWorld, RefusesAPlacementWithoutRanks) {
    for (const Placement p : {Placement{-1, -2}, {0, 1}}) {
        try {
            const FarWorld<> world({.placement = p});
            FAIL() << p.machines;
        } catch (const Error& e) {
            EXPECT_EQ(std::string(e.what()).find("placement.machines is "), 0u) << e.what();
        }
    }
}

}  // namespace
