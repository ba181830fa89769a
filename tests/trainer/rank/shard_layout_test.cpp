// ShardLayout: what a rank updates, moved together and back.
#include <gx/trainer/rank/shard_layout.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

namespace {

using gx::ChunkRange;
using gx::HostQueue;
using gx::ParameterSlice;
using gx::detail::trainer::ShardLayout;
using Floats = std::vector<float>;

// ---- A case worked by hand: 2 of 3 parameters, cut, with padding at 3 and 8 --------------------
const std::vector<ParameterSlice> slices{{0, 3, 0}, {4, 4, 1}, {9, 3, 2}};

TEST(ShardLayout, LeavesThePaddingOut) {
    const std::vector<ChunkRange> parts{{1, 5}, {7, 9}};
    const ShardLayout shard(parts, slices);
    EXPECT_EQ(shard.elements(), 4u);
    EXPECT_TRUE(shard.apart());
    ASSERT_EQ(shard.slices().size(), 3u);
    const auto expect = [&](std::size_t i, std::size_t offset, std::size_t count, int parameter) {
        EXPECT_EQ(shard.slices()[i].offset, offset);
        EXPECT_EQ(shard.slices()[i].count, count);
        EXPECT_EQ(shard.slices()[i].parameter, parameter);
    };
    expect(0, 0, 2, 0);
    expect(1, 2, 1, 1);
    expect(2, 3, 1, 1);
    Floats whole(12), mine(4);
    std::iota(whole.begin(), whole.end(), 0.0f);
    shard.collect(HostQueue{}, whole, mine);
    EXPECT_EQ(mine, (Floats{1, 2, 4, 7}));
    shard.spread(HostQueue{}, Floats{-1, -2, -4, -7}, whole);
    EXPECT_EQ(whole, (Floats{0, -1, -2, 3, -4, 5, 6, -7, 8, 9, 10, 11}));
}
TEST(ShardLayout, OfOneRunIsAPiece) {
    const std::vector<ChunkRange> parts{{4, 6}, {6, 9}};
    const ShardLayout shard(parts, slices);
    EXPECT_FALSE(shard.apart());
    Floats whole(12);
    EXPECT_EQ(shard.piece(std::span(whole)).data(), whole.data() + 4);
    EXPECT_EQ(shard.piece(std::span(whole)).size(), 4u);
}
TEST(ShardLayout, MayBeEmpty) {
    const std::vector<ChunkRange> parts{{3, 4}};
    for (const ShardLayout& shard : {ShardLayout(), ShardLayout(parts, slices)}) {
        Floats whole(12);
        EXPECT_EQ(shard.elements(), 0u);
        EXPECT_TRUE(shard.piece(std::span(whole)).empty());
    }
}

// ---- A property -----------------------------------------------------------------------

// Elements go to where they were, and to one shard each.
RC_GTEST_PROP(ShardLayout, ShardsOfAPartitionMakeTheWhole, ()) {
    const auto count = [] { return *rc::gen::inRange<std::size_t>(0, 9); };
    std::vector<ParameterSlice> all;
    std::size_t end = count();
    for (int p = 0; p < 4; ++p, end += count()) {
        all.push_back({end, 1 + count(), p});
        end += all.back().count;
    }
    std::vector<std::vector<ChunkRange>> parts(3);
    for (std::size_t at = 0, to = 0; at < end; at = to) {
        to = std::min(end, at + 1 + count());
        parts[*rc::gen::inRange<std::size_t>(0, 3)].push_back(
            {static_cast<std::int64_t>(at), static_cast<std::int64_t>(to)});
    }
    Floats whole(end), again(end, -1.0f);
    std::iota(whole.begin(), whole.end(), 0.0f);
    std::size_t elements = 0;
    for (const auto& of_rank : parts) {
        const ShardLayout shard(of_rank, all);
        Floats mine(shard.elements());
        shard.collect(HostQueue{}, whole, mine);
        shard.spread(HostQueue{}, mine, again);
        elements += shard.elements();
    }
    std::size_t expected = 0;
    for (const ParameterSlice& s : all) {
        expected += s.count;
        for (std::size_t i = s.offset; i < s.offset + s.count; ++i) {
            RC_ASSERT(again[i] == whole[i]);
            again[i] = -1.0f;
        }
    }
    RC_ASSERT(elements == expected);
    RC_ASSERT(again == Floats(end, -1.0f));
}

}  // namespace
