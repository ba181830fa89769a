#include <gx/sharded/reducer.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>

#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/reducer/name.hpp>
#include <gx/reducer/pipeline.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/sim/testing/on_cluster.hpp>
#include <support/generators.hpp>
#include <support/reduce_on.hpp>

// ---- What the type promises ---------------------------------------------------------
using gx::Bucketed;
using gx::fp16;
using gx::fp32;
using gx::MultiRing;
using gx::Ring;
using gx::Sharded;
static_assert(gx::OwnsUpdate<Sharded<Ring<>>> && !gx::OwnsUpdate<Ring<>>);
static_assert(Sharded<Ring<>>::owns_update.in_parts && !Sharded<Ring<>>::owns_update.apart);
static_assert(Sharded<MultiRing<4, fp16>>::channels == 4);

namespace {

struct Size {
    std::int64_t elements, bucket;
};
template <class R>
R reserved(gx::Placement p, Size s) {
    R reducer;
    reducer.reserve({.placement = p, .elements = s.elements, .bucket_elements = s.bucket});
    return reducer;
}

// ---- Cases worked by hand -----------------------------------------------------------
TEST(Sharded, OwnsTheChunkThatTheRingLeaves) {
    const auto reducer = reserved<Sharded<Ring<>>>({1, 3}, {7, 7});  // chunks of 3, 2 and 2
    using Parts = std::vector<gx::ChunkRange>;
    const auto of = [&](int rank) {
        const Parts parts = reducer.updated_by(rank);
        return std::pair(parts.at(0).begin, parts.at(0).end);
    };
    EXPECT_EQ(of(0), std::pair(std::int64_t{3}, std::int64_t{5}));
    EXPECT_EQ(of(1), std::pair(std::int64_t{5}, std::int64_t{7}));
    EXPECT_EQ(of(2), std::pair(std::int64_t{0}, std::int64_t{3}));
}
TEST(ShardedDeathTest, OwnsAShardOfARankThatThereIs) {
    auto reducer = reserved<Sharded<Ring<>>>({1, 3}, {7, 7});
    for (const int rank : {-1, 3})
        EXPECT_DEATH(reducer.own_update(rank, std::span<float>{}),
                     "a rank of the reserved placement");
}
TEST(Sharded, IsWhatItWrapsWithoutATrainer) {
    Rows rows{{3, 6}, {30, 60}, {300, 600}};
    const auto report = reduce_on<Sharded<Ring<>>>({.ranks = 3}, rows);
    EXPECT_EQ(rows, (Rows{{111, 222}, {111, 222}, {111, 222}}));
    EXPECT_EQ(report.steps, 4);
}
TEST(Sharded, SendsHalfAndThenParametersInFloat) {
    gx::testing::OnThreads{}({1, 4}, [](auto& rank) {
        auto reducer = reserved<Sharded<Ring<fp16>>>({1, 4}, {12, 12});
        reducer.own_update(rank.rank(), {});
        std::vector<float> values(12, 1.0f);
        const auto half = reducer.all_reduce(rank.transport(), std::span(values));
        EXPECT_EQ(half.steps, 3);
        EXPECT_EQ(half.bytes_sent, 2 * 9);
        const auto change = [&](gx::FunctionRef<void(std::span<float>)> f) { f(values); };
        const auto other = reducer.updated(rank.transport(), {change});
        EXPECT_EQ(other.steps, 3);
        EXPECT_EQ(other.bytes_sent, 4 * 9);
        const auto none = reducer.updated(rank.transport(), {change, false});
        EXPECT_EQ(none.bytes_sent, 0) << "skipped on all ranks";
    });
}
TEST(Sharded, IsCalledByWhatItWraps) {
    EXPECT_EQ(gx::reducer_name<Sharded<Ring<fp16>>>(), "Sharded<Ring<fp16>>");
    EXPECT_EQ((gx::reducer_name<Sharded<Bucketed<MultiRing<4>, 256>>>()),
              "Sharded<Bucketed<MultiRing<4, fp32>, 256>>");
}

// ---- Properties ---------------------------------------------------------------------

/// Ranks' parts are disjoint, and all of them together the whole vector.
template <class R>
void shards_are_a_partition() {
    const gx::Placement p = *a_placement();
    const auto elements = *rc::gen::inRange<std::int64_t>(1, 200);
    const auto reducer = reserved<R>(p, {elements, *rc::gen::inRange<std::int64_t>(1, 201)});
    std::vector<int> owners(std::size_t(elements), 0);
    for (int rank = 0; rank < p.ranks(); ++rank) {
        std::int64_t end = 0;
        for (const gx::ChunkRange& part : reducer.updated_by(rank)) {
            RC_ASSERT(part.begin >= end && part.end > part.begin && part.end <= elements);
            end = part.end;
            for (auto i = part.begin; i < part.end; ++i) ++owners[std::size_t(i)];
        }
    }
    for (const int n : owners) RC_ASSERT(n == 1);
}
RC_GTEST_PROP(Sharded, ShardsOfARingAreAPartition, ()) {
    shards_are_a_partition<Sharded<Ring<>>>();
}
RC_GTEST_PROP(Sharded, ShardsOfRingsInBucketsAreAPartition, ()) {
    shards_are_a_partition<Sharded<Bucketed<MultiRing<3, fp16>, 32>>>();
}

/// Through a Pipeline, as a Trainer does it: the owners' means have the bits of R's, on whatever is
/// done to them, and all ranks end with them.
template <class R>
void owners_have_the_bits_of(const auto& on) {
    const gx::Placement p = *a_placement();
    const auto elements = *rc::gen::inRange<std::int64_t>(1, 300);
    const auto bucket = *rc::gen::inRange<std::int64_t>(0, elements + 1);
    const Rows rows =
        gx::testing::wide_magnitudes(*rc::gen::arbitrary<std::uint64_t>(), p.ranks(), elements);
    const gx::PipelineOptions options{.elements = elements, .bucket_elements = bucket};
    Rows means(rows.size()), ends(rows.size());
    const auto collect = [&](auto& pipeline, auto& rank) {
        const auto& mine = rows[std::size_t(rank.rank())];
        std::ranges::copy(mine, pipeline.begin(0).begin());
        pipeline.ready(0);
        const auto reduced = pipeline.collect(0);
        EXPECT_TRUE(reduced->report.complete());
        return reduced->values;
    };
    on(p, [&](auto& rank) {
        gx::Pipeline pipeline(rank.stream(), rank.transport(), options, R());
        const auto mean = collect(pipeline, rank);
        means[std::size_t(rank.rank())].assign(mean.begin(), mean.end());
    });
    on(p, [&](auto& rank) {
        gx::Pipeline pipeline(rank.stream(), rank.transport(), options, Sharded<R>());
        auto& reducer = pipeline.reducer();
        reducer.own_update(rank.rank(), {});
        const auto shard = collect(pipeline, rank);
        std::vector<float> parameters(std::size_t(elements), -1.0f);
        for (const gx::ChunkRange& part : reducer.updated_by(rank.rank()))
            for (auto i = std::size_t(part.begin); i < std::size_t(part.end); ++i)
                parameters[i] = shard[i];
        const auto change = [&](gx::FunctionRef<void(std::span<float>)> f) { f(parameters); };
        EXPECT_TRUE(reducer.updated(rank.transport(), {change}).complete());
        ends[std::size_t(rank.rank())] = parameters;
    });
    for (std::size_t r = 0; r < rows.size(); ++r)
        for (std::size_t i = 0; i < ends[r].size(); ++i)
            RC_ASSERT(std::bit_cast<std::uint32_t>(ends[r][i]) ==
                      std::bit_cast<std::uint32_t>(means[r][i]));
}
RC_GTEST_PROP(Sharded, OfFloats, ()) { owners_have_the_bits_of<Ring<>>(gx::testing::OnThreads{}); }
RC_GTEST_PROP(Sharded, OfHalves, ()) {
    owners_have_the_bits_of<Ring<fp16>>(gx::testing::OnThreads{});
}
RC_GTEST_PROP(Sharded, OfBrainsDividedAfter, ()) {
    owners_have_the_bits_of<Ring<gx::bf16, gx::DivideAfter>>(gx::sim::OnCluster{});
}
RC_GTEST_PROP(Sharded, OfRingsOfHalvesDividedBefore, ()) {
    owners_have_the_bits_of<MultiRing<3, fp16, gx::DivideBefore>>(gx::testing::OnThreads{});
}
RC_GTEST_PROP(Sharded, OfBuckets, ()) {
    owners_have_the_bits_of<Bucketed<MultiRing<2, fp16>, 64>>(gx::sim::OnCluster{});
}

// ---- A fault --------------------------------------------------------------------------
TEST(Sharded, SaysSoWhenARankIsLostInEitherHalf) {
    for (const bool first : {true, false}) {
        std::array<gx::Delivery, 3> ended{};
        gx::testing::OnThreads{}({1, 3}, [&](auto& rank) {
            auto reducer = reserved<Sharded<Ring<>>>({1, 3}, {12, 12});
            reducer.own_update(rank.rank(), {});
            std::vector<float> values(12, 1.0f);
            if (first && rank.rank() == 2) return;
            const auto half = reducer.all_reduce(rank.transport(), std::span(values));
            ended[std::size_t(rank.rank())] = half.delivery;
            if (first || rank.rank() == 2) return;
            EXPECT_TRUE(half.complete());
            const auto change = [&](gx::FunctionRef<void(std::span<float>)> f) { f(values); };
            ended[std::size_t(rank.rank())] = reducer.updated(rank.transport(), {change}).delivery;
        });
        for (const std::size_t r : {0u, 1u}) {
            EXPECT_FALSE(ended[r].complete());
            EXPECT_EQ(ended[r].peer, 2);
        }
    }
}

}  // namespace
