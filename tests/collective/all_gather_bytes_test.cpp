#include <gx/collective/all_gather_bytes.hpp>

#include <cstring>  // memcpy

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <collective/worlds.hpp>
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/testing/checked_transport.hpp>

using gx::collective::all_gather_bytes;
using gx::collective::all_gather_offsets;
using gx::collective::Execution;

namespace {

using Block = std::vector<std::byte>;

/// A block of random bytes for each rank; some empty, perhaps all.
std::vector<Block> some_blocks(int ranks) {
    std::vector<Block> blocks;
    const int longest = *rc::gen::element(0, 1, 5, 200);
    for (int r = 0; r < ranks; ++r) {
        const auto bytes = *rc::gen::container<std::vector<std::uint8_t>>(
            static_cast<std::size_t>(*rc::gen::inRange(0, longest + 1)),
            rc::gen::arbitrary<std::uint8_t>());
        Block& block = blocks.emplace_back();
        for (const std::uint8_t b : bytes) block.push_back(std::byte{b});
    }
    return blocks;
}
Block joined(const std::vector<Block>& blocks) {
    Block all;
    for (const Block& block : blocks) all.insert(all.end(), block.begin(), block.end());
    return all;
}
std::vector<std::int64_t> offsets_of(const std::vector<Block>& blocks) {
    std::vector<std::int64_t> offsets{0};
    for (const Block& b : blocks)
        offsets.push_back(offsets.back() + static_cast<std::int64_t>(b.size()));
    return offsets;
}
std::span<std::byte> block_of(Block& all, const std::vector<std::int64_t>& offsets, int rank) {
    const auto r = static_cast<std::size_t>(rank);
    return part(all, {offsets[r], offsets[r + 1]});
}

// ---- A case worked by hand ----------------------------------------------------------
/// Top-k: each rank sends its largest values with their places; how many differs by rank.
TEST(AllGatherBytes, GathersValuesWithTheirIndices) {
    struct Entry {
        float value;
        std::uint32_t index;
        bool operator==(const Entry&) const = default;
    };
    const std::vector<std::vector<Entry>> found{{{3.5f, 7}}, {}, {{-9.0f, 0}, {8.0f, 41}}};
    on_both_worlds([&](const auto& on) {
        on(gx::Placement{1, 3}, [&](auto& rank) {
            const auto& mine = found[static_cast<std::size_t>(rank.rank())];
            const auto bytes = std::as_bytes(std::span(mine));
            std::array<std::int64_t, 4> offsets{};
            const Execution told = all_gather_offsets(
                rank.transport(), static_cast<std::int64_t>(bytes.size()), offsets, 3);
            ASSERT_TRUE(told.delivery.complete());
            EXPECT_EQ(told.bytes_sent, 2 * 8);
            EXPECT_EQ(offsets, (std::array<std::int64_t, 4>{0, 8, 8, 24}));
            std::vector<Entry> all(static_cast<std::size_t>(offsets[3]) / sizeof(Entry));
            const Execution done = all_gather_bytes(
                rank.transport(), bytes, std::as_writable_bytes(std::span(all)), offsets, 3);
            ASSERT_TRUE(done.delivery.complete());
            EXPECT_EQ(all, (std::vector<Entry>{{3.5f, 7}, {-9.0f, 0}, {8.0f, 41}}));
            EXPECT_EQ(done.steps, 2);
            // a rank sends all blocks but that of the next rank
            EXPECT_EQ(done.bytes_sent, (std::array{24, 8, 16})[std::size_t(rank.rank())]);
        });
    });
}

// ---- Properties -------------------------------------------------------------------------
TEST(AllGatherBytes, GathersBlocksOfAnyLengths) {
    EXPECT_TRUE(rc::check([] {
        const gx::Placement placement = some_placement();
        const auto blocks = some_blocks(placement.ranks());
        const auto expected = joined(blocks);
        const auto offsets = offsets_of(blocks);
        const bool in_place = *rc::gen::arbitrary<bool>();
        on_both_worlds([&](const auto& on) {
            on(placement, [&](auto& rank) {
                const Block& mine = blocks[static_cast<std::size_t>(rank.rank())];
                Block all(expected.size() + 3, std::byte{0xEE});  // longer than need be
                std::span<const std::byte> block = mine;
                if (in_place) {
                    const auto place = block_of(all, offsets, rank.rank());
                    std::copy(mine.begin(), mine.end(), place.begin());
                    block = place;
                }
                const Execution done = all_gather_bytes(rank.transport(), block, all, offsets, 2);
                RC_ASSERT(done.delivery.complete());
                RC_ASSERT(std::equal(expected.begin(), expected.end(), all.begin()));
                for (std::size_t i = expected.size(); i < all.size(); ++i)
                    RC_ASSERT(all[i] == std::byte{0xEE});
                const auto next = blocks[static_cast<std::size_t>(rank.rank() + 1) % blocks.size()];
                RC_ASSERT(done.bytes_sent ==
                          static_cast<std::int64_t>(expected.size() - next.size()));
            });
        });
    }));
}
TEST(AllGatherBytes, TellsAllLengths) {
    EXPECT_TRUE(rc::check([] {
        const gx::Placement placement = some_placement();
        const auto n = static_cast<std::size_t>(placement.ranks());
        const auto lengths = *rc::gen::container<std::vector<std::int64_t>>(
            n, rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 40));
        std::vector<std::int64_t> expected{0};
        for (const std::int64_t length : lengths) expected.push_back(expected.back() + length);
        on_both_worlds([&](const auto& on) {
            on(placement, [&](auto& rank) {
                std::vector<std::int64_t> offsets(n + 1, -1);
                const Execution done = all_gather_offsets(
                    rank.transport(), lengths[static_cast<std::size_t>(rank.rank())], offsets, 2);
                RC_ASSERT(done.delivery.complete());
                RC_ASSERT(offsets == expected);
            });
        });
    }));
}

// ---- Faults ---------------------------------------------------------------------------
/// Whatever is lost, nothing that was posted stays behind, and all name the rank.
template <class Gather>
void expect_the_missing_rank_is_named(Gather gather) {
    on_both_worlds([&](const auto& on) {
        std::vector<gx::Delivery> deliveries(4);
        std::vector<int> unfinished(4, -1);
        on(gx::Placement{2, 2}, [&](auto& rank) {
            const auto r = static_cast<std::size_t>(rank.rank());
            if (r == 1) return;
            gx::testing::detail::TransportOf any(rank.transport());
            gx::testing::CheckedTransport link(any);
            deliveries[r] = gather(link).delivery;
            unfinished[r] = link.take_traffic().unfinished;
        });
        for (const std::size_t r : {0u, 2u, 3u}) {
            EXPECT_FALSE(deliveries[r].complete());
            EXPECT_EQ(deliveries[r].peer, 1);
            EXPECT_EQ(unfinished[r], 0);
        }
    });
}
TEST(AllGatherBytes, OfAControlMessageTakesADeviceNoTime) {
    const auto elapsed = [](int channel) {
        gx::sim::Cluster<> world(gx::sim::ethernet_10g(1));
        world.run([&](auto& rank) {
            const Block mine(1000);
            Block all(1000);
            const std::array<std::int64_t, 2> offsets{0, 1000};
            const Execution done = all_gather_bytes(rank.transport(), mine, all, offsets, channel);
            EXPECT_TRUE(done.delivery.complete());
        });
        return world.elapsed().count();
    };
    EXPECT_GT(elapsed(gx::control_channel - 1), 0) << "a kernel copies the rank's own block";
    EXPECT_EQ(elapsed(gx::control_channel), 0);
}
TEST(AllGatherBytes, NamesTheRankThatIsMissing) {
    expect_the_missing_rank_is_named([](auto& link) {
        const std::vector<std::int64_t> offsets{0, 4, 6, 7, 12};
        Block all(12);
        const auto mine = block_of(all, offsets, link.rank());
        return all_gather_bytes(link, mine, all, offsets, 0);
    });
}
TEST(AllGatherBytes, NamesTheRankWhoseLengthIsMissing) {
    expect_the_missing_rank_is_named([](auto& link) {
        std::vector<std::int64_t> offsets(5);
        return all_gather_offsets(link, 3, offsets, 0);
    });
}

// ---- A broken contract ------------------------------------------------------------------
void gather_alone(std::size_t mine, std::size_t all, std::vector<std::int64_t> offsets) {
    gx::testing::OnThreads{}({1, 1}, [&](auto& rank) {
        const Block block(mine);
        Block gathered(all);
        (void)all_gather_bytes(rank.transport(), block, gathered, offsets, 0);
    });
}
TEST(AllGatherBytesDeathTest, OffsetsFit) {
    gather_alone(3, 4, {1, 4});
    EXPECT_DEATH(gather_alone(3, 3, {}), "an offset for each rank");
    EXPECT_DEATH(gather_alone(3, 3, {0, 3, 3}), "an offset for each chunk");
    EXPECT_DEATH(gather_alone(3, 2, {0, 3}), "within the data");
    EXPECT_DEATH(gather_alone(2, 3, {0, 3}), "a block as long as");
}
TEST(AllGatherBytesDeathTest, LengthsAreNotNegative) {
    const auto negative = [] {
        gx::testing::OnThreads{}({1, 1}, [&](auto& rank) {
            std::array<std::int64_t, 2> offsets{};
            (void)all_gather_offsets(rank.transport(), -1, offsets, 0);
        });
    };
    EXPECT_DEATH(negative(), "at least 0 bytes");
}

}  // namespace
