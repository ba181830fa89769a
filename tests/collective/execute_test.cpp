#include <gx/collective/execute.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/collective/pairwise_all_to_all.hpp>
#include <gx/collective/ring.hpp>
#include <gx/collective/tree_gather.hpp>
#include <gx/testing/worlds.hpp>
#include <support/generators.hpp>

namespace {

using gx::collective::Execution;
using gx::collective::Flow;
using gx::collective::Ring;
using gx::testing::OnThreads;
using gx::testing::Rows;

/// Executes K rings in machine orders over K parts of each row; answers what rank 0 did.
template <gx::Element E, std::size_t K>
Execution run(gx::Placement placement, std::vector<std::vector<typename E::storage>>& rows) {
    Execution first;
    OnThreads{}(placement, [&](auto& rank) {
        auto& row = rows[static_cast<std::size_t>(rank.rank())];
        std::vector<typename E::storage> scratch(K * (row.size() + 1));
        const auto flow = [&](std::size_t k) -> Flow<E, Ring> {
            const auto part =
                gx::chunk_range(static_cast<std::int64_t>(row.size()), K, static_cast<int>(k));
            const std::span<typename E::storage> all(row);
            return {gx::collective::machine_ring(placement, static_cast<int>(k)),
                    all.subspan(static_cast<std::size_t>(part.begin),
                                static_cast<std::size_t>(part.size())),
                    std::span(scratch).subspan(k * (row.size() + 1), row.size() + 1),
                    static_cast<int>(k)};
        };
        const auto flows = [&]<std::size_t... k>(std::index_sequence<k...>) {
            return std::array<Flow<E, Ring>, K>{flow(k)...};
        }(std::make_index_sequence<K>{});
        const Execution done = execute(rank.transport(), flows);
        if (rank.rank() == 0) first = done;
    });
    return first;
}

/// The same sums, serially: chunk c of part k starts at position c of ring k and goes up.
template <gx::Element E>
std::vector<typename E::storage> serial(gx::Placement placement, int K,
                                        const std::vector<std::vector<typename E::storage>>& rows) {
    auto sum = rows[0];
    const int n = placement.ranks();
    for (int k = 0; k < K; ++k) {
        const auto part = gx::chunk_range(static_cast<std::int64_t>(sum.size()), K, k);
        const gx::collective::MachineOrder order(placement, k);
        for (int c = 0; c < n; ++c) {
            const auto chunk = gx::chunk_range(part.size(), n, c);
            for (auto i = static_cast<std::size_t>(part.begin + chunk.begin);
                 i < static_cast<std::size_t>(part.begin + chunk.end); ++i) {
                const auto at = [&](int p) {
                    return rows[static_cast<std::size_t>(order.rank_at(p % n))][i];
                };
                auto x = at(c);
                for (int p = c + 1; p < c + n; ++p) x = E::encode(E::decode(at(p)) + E::decode(x));
                sum[i] = x;
            }
        }
    }
    return sum;
}

template <gx::Element E>
std::vector<std::vector<typename E::storage>> encoded(const Rows& rows) {
    std::vector<std::vector<typename E::storage>> wire(rows.size());
    for (std::size_t r = 0; r < rows.size(); ++r)
        for (const float x : rows[r]) wire[r].push_back(E::encode(x));
    return wire;
}

// ---- A case worked by hand ----------------------------------------------------------
TEST(Execute, AddsThreeRowsAndCounts) {
    std::vector<std::vector<float>> rows{{1, 2, 3, 4}, {10, 20, 30, 40}, {100, 200, 300, 400}};
    const Execution done = run<gx::fp32, 1>({1, 3}, rows);
    for (const auto& row : rows) EXPECT_EQ(row, (std::vector<float>{111, 222, 333, 444}));
    EXPECT_EQ(done.steps, 4);
    // rank 0 sends chunks 0, 2, 1, 0 of sizes 2, 1, 1, 2
    EXPECT_EQ(done.bytes_sent, 6 * 4);
}

TEST(Execute, EmptyDataSendsNothing) {
    std::vector<std::vector<float>> rows(3);
    EXPECT_EQ((run<gx::fp32, 2>({1, 3}, rows).bytes_sent), 0);
}

// ---- Properties: bitwise the serial sums, in the ring's order -------------------------
template <gx::Element E, std::size_t K>
void expect_serial() {
    const gx::Placement placement = *a_placement();
    auto rows = encoded<E>(some_rows(placement));
    const auto expected = serial<E>(placement, static_cast<int>(K), rows);
    const Execution done = run<E, K>(placement, rows);
    RC_ASSERT(done.delivery.complete());
    for (const auto& row : rows) RC_ASSERT(row == expected);
}
TEST(Execute, OneRingOfFloats) {
    EXPECT_TRUE(rc::check([] { expect_serial<gx::fp32, 1>(); }));
}
TEST(Execute, ThreeRingsOfHalves) {
    EXPECT_TRUE(rc::check([] { expect_serial<gx::fp16, 3>(); }));
}
TEST(Execute, FourRingsOfBrains) {
    EXPECT_TRUE(rc::check([] { expect_serial<gx::bf16, 4>(); }));
}

// ---- Another collective, which sends the chunk that it receives ------------------------
/// Two ranks swap their whole data and add: needs the scratch, and the data as it was.
struct Swap {
    [[nodiscard]] int ranks() const { return 2; }
    [[nodiscard]] int chunks() const { return 1; }
    [[nodiscard]] int steps() const { return 2; }  // add, then copy what is equal by now
    [[nodiscard]] gx::Exchange exchange(int rank, int step) const {
        return {1 - rank, 0, 1 - rank, 0, step == 0 ? gx::Combine::add : gx::Combine::copy};
    }
};
TEST(Execute, KeepsWhatIsSentUntilItIsSent) {
    Rows rows{{1, 2, 3}, {40, 50, 60}};
    OnThreads{}({1, 2}, [&](auto& rank) {
        std::vector<float> scratch(3);
        const std::array<Flow<gx::fp32, Swap>, 1> flows{
            {{Swap{}, rows[static_cast<std::size_t>(rank.rank())], scratch, 0}}};
        EXPECT_TRUE(execute(rank.transport(), flows).delivery.complete());
    });
    EXPECT_EQ(rows, (Rows{{41, 52, 63}, {41, 52, 63}}));
}

// ---- Chunks of lengths that the caller gives -------------------------------------------
/// Three ranks, chunks of 0, 3 and 1 elements behind an element that belongs to none.
TEST(Execute, CutsTheDataWhereTheOffsetsSay) {
    Rows rows{{1, 2, 3, 4, 5}, {1, 20, 30, 40, 50}, {1, 200, 300, 400, 500}};
    const std::vector<std::int64_t> offsets{1, 1, 4, 5};
    std::vector<std::int64_t> bytes(3);
    OnThreads{}({1, 3}, [&](auto& rank) {
        const auto r = static_cast<std::size_t>(rank.rank());
        std::vector<float> scratch(3);
        const Flow<gx::fp32, Ring> flow{Ring(3), rows[r], scratch, 0, offsets};
        const Execution done = execute(rank.transport(), flow);
        EXPECT_TRUE(done.delivery.complete());
        bytes[r] = done.bytes_sent;
    });
    for (const auto& row : rows) EXPECT_EQ(row, (std::vector<float>{1, 222, 333, 444, 555}));
    EXPECT_EQ(bytes[0], 4 * (0 + 1 + 3 + 0)) << "rank 0 sends chunks 0, 2, 1, 0";
}

// ---- A broken contract ------------------------------------------------------------------
static_assert(gx::collective::Executable<gx::collective::raw_bytes, gx::collective::RingAllGather>);
static_assert(!gx::collective::Executable<gx::collective::raw_bytes, Ring>, "it adds");
static_assert(!gx::collective::Executable<gx::collective::raw_bytes, Swap>, "promises nothing");
static_assert(gx::collective::Executable<gx::bf16, Swap>);

/// One rank alone, so that a contract breaks before a message is sent.
template <class C>
void execute_alone(const C& c, std::size_t elements, std::vector<std::int64_t> offsets) {
    OnThreads{}({1, 1}, [&](auto& rank) {
        std::vector<float> data(elements);
        (void)execute(rank.transport(), Flow<gx::fp32, C>{c, data, {}, 0, offsets});
    });
}
TEST(ExecuteDeathTest, OffsetsLieInTheData) {
    const Ring one(1);
    execute_alone(one, 3, {1, 3});
    EXPECT_DEATH(execute_alone(Ring(2), 3, {}), "as many ranks as the transport has");
    EXPECT_DEATH(execute_alone(one, 3, {0}), "an offset for each chunk");
    EXPECT_DEATH(execute_alone(one, 3, {0, 4}), "within the data");
    EXPECT_DEATH(execute_alone(one, 3, {-1, 3}), "within the data");
    EXPECT_DEATH(execute_alone(one, 3, {2, 1}), "one behind the other");
}
TEST(ExecuteDeathTest, AnAllToAllTakesChunksOfOneLength) {
    const auto swap_five = [] {
        OnThreads{}({1, 2}, [](auto& rank) {
            std::vector<float> data(5), scratch(5);
            using gx::collective::PairwiseAllToAll;
            (void)execute(rank.transport(),
                          Flow<gx::fp32, PairwiseAllToAll>{PairwiseAllToAll(2), data, scratch});
        });
    };
    EXPECT_DEATH(swap_five(), "chunks of equal lengths");
}
TEST(ExecuteDeathTest, AnAddingStepNeedsItsScratch) {
    const auto without = [] {
        OnThreads{}({1, 2}, [](auto& rank) {
            std::vector<float> data(4), scratch(1);
            (void)execute(rank.transport(), Flow<gx::fp32, Ring>{Ring(2), data, scratch});
        });
    };
    EXPECT_DEATH(without(), "a scratch that holds the largest message");
}
TEST(Execute, SaysHowLongItsScratchIs) {
    EXPECT_EQ(scratch_elements(Ring(4), 10), 3);
    EXPECT_EQ(scratch_elements(Ring(4), 3), 1);
    EXPECT_EQ(scratch_elements(gx::collective::TreeGather(8), 80), 40);
}

// ---- A fault --------------------------------------------------------------------------
TEST(Execute, StopsAndNamesTheRankThatIsMissing) {
    std::vector<gx::Delivery> deliveries(4);
    Rows rows(4, std::vector<float>(40, 1.0f));
    OnThreads{}({1, 4}, [&](auto& rank) {
        const auto r = static_cast<std::size_t>(rank.rank());
        if (r == 2) return;
        std::vector<float> scratch(40);
        const std::array<Flow<gx::fp32, Ring>, 1> flows{{{Ring(4), rows[r], scratch, 0}}};
        deliveries[r] = execute(rank.transport(), flows).delivery;
    });
    for (const int r : {0, 1, 3}) {
        EXPECT_FALSE(deliveries[static_cast<std::size_t>(r)].complete());
        EXPECT_EQ(deliveries[static_cast<std::size_t>(r)].peer, 2);
    }
}

}  // namespace
