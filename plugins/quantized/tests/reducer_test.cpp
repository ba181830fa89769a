#include <gx/quantized/reducer.hpp>

#include <cmath>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/optimizer/finite.hpp>
#include <gx/sim/testing/on_cluster.hpp>
#include <support/generators.hpp>
#include <support/reduce_on.hpp>

// ---- What the type promises ---------------------------------------------------------
static_assert(gx::Reducer<gx::Quantized<>> && gx::Reducer<gx::Quantized<4>>);
static_assert(gx::accuracy<gx::Quantized<>>() == gx::Accuracy::unbiased);

namespace {

using gx::testing::OnThreads;
using gx::testing::reduce_jobs;

// ---- Cases worked by hand -----------------------------------------------------------
TEST(Quantized, AveragesWhatIsOnTheGrid) {  // every step is 1, of the mean too
    Rows rows{{127, 2, -4, 0}, {127, 4, 0, -127}, {127, 6, 1, 127}};
    const auto report = reduce_on<gx::Quantized<>>({.ranks = 3}, rows);
    for (const auto& row : rows) EXPECT_EQ(row, (std::vector<float>{127, 4, -1, 0}));
    EXPECT_EQ(report.steps, 3 + 2);
    Rows few{{7, 2, -4, 1}, {7, 4, 0, -7}};
    reduce_on<gx::Quantized<4>>({.ranks = 2}, few);
    for (const auto& row : few) EXPECT_EQ(row, (std::vector<float>{7, 3, -2, -3}));
}
TEST(Quantized, SendsAByteAValueAndAStepABlock) {
    // 3 blocks, one for each rank: 2 x 260 bytes, then all but block 1, 612 - 260
    Rows rows(3, std::vector<float>(600, 1.0f));
    EXPECT_EQ(reduce_on<gx::Quantized<>>({.ranks = 3}, rows).bytes_sent, 520 + 352);
    // 4-bit blocks are of 132 and 48 bytes
    EXPECT_EQ(reduce_on<gx::Quantized<4>>({.ranks = 3}, rows).bytes_sent, 264 + 180);
    // one block of 5 values, filled up for each of 3 others, then sent on
    Rows short_rows(4, std::vector<float>(5, 1.0f));
    const auto report = reduce_on<gx::Quantized<>>({.ranks = 4}, short_rows);
    EXPECT_EQ(report.bytes_sent, 3 * 9 + 9);
    EXPECT_EQ(report.steps, 3 + 3);
}
TEST(Quantized, SendsAboutAQuarterOfTheBytesOfARing) {
    const std::size_t elements = 4 * 256 * 10;
    Rows rows(4, std::vector<float>(elements, 1.0f));
    const double bucket = 4.0 * elements;
    EXPECT_EQ(double(reduce_on<gx::Quantized<>>({.ranks = 4}, rows).bytes_sent),
              2 * 3 / 4.0 * bucket * (1 + 4 / 256.0) / 4);
}
TEST(Quantized, OfAnEmptyBucketSendsNothing) {
    Rows rows(3);
    const auto report = reduce_on<gx::Quantized<>>({.ranks = 3}, rows);
    EXPECT_TRUE(report.complete());
    EXPECT_EQ(report.bytes_sent + report.steps, 0);
}
TEST(Quantized, AddsInDoubleFromRankZero) {
    const auto first_of = [](std::initializer_list<float> column) {
        Rows rows;
        for (const float x : column) rows.push_back({127 * x});
        reduce_on<gx::Quantized<>>({.ranks = 4}, rows);
        for (const auto& row : rows) EXPECT_EQ(row, rows[0]);
        return rows[0][0] / 127;
    };
    EXPECT_EQ(first_of({0x1p30f, 1, -0x1p30f, 3}), 1) << "in float the 1 would be lost";
    EXPECT_EQ(first_of({0x1p60f, 1, -0x1p60f, 3}), 0.75f) << "in another order it would be kept";
}
TEST(Quantized, DoesNotOverflowNearTheLargestFloat) {
    const float most = std::numeric_limits<float>::max();
    Rows rows(5, std::vector<float>{most, -most, 0, most / 3});
    reduce_on<gx::Quantized<>>({.ranks = 5}, rows);
    for (const auto& row : rows) {
        EXPECT_EQ(row[0], most);
        EXPECT_EQ(row[1], -most);
        EXPECT_EQ(row[2], 0);
        EXPECT_NEAR(row[3] / most, 1 / 3.0, 2 / 126.0);
    }
}

// ---- Values that are not finite -----------------------------------------------------
TEST(Quantized, LosesABlockOnAllRanksWhereAValueIsNotFinite) {
    const std::size_t elements = 600;
    for (const float bad :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
        for (std::size_t rank = 0; rank < 3; ++rank)
            for (const std::size_t at : {0u, 255u, 256u, 511u, 512u, 599u}) {
                Rows rows(3, std::vector<float>(elements, 127.0f));
                rows[rank][at] = bad;
                reduce_on<gx::Quantized<>>({.ranks = 3}, rows);
                for (const auto& row : rows) {
                    ASSERT_FALSE(gx::all_finite(row));
                    for (std::size_t i = 0; i < elements; ++i)
                        ASSERT_TRUE(i / 256 == at / 256 ? std::isnan(row[i]) : row[i] == 127.0f)
                            << bad << " at " << at << " of rank " << rank << ", element " << i;
                }
            }
}

// ---- What the bits depend on --------------------------------------------------------

/// The results of `bucket_length` values a bucket, from the last one down, as a Pipeline does.
template <class R, class Worlds>
Rows in_buckets(const Worlds& on, gx::Placement placement, Rows rows, std::size_t bucket_length,
                std::uint64_t gradient, std::uint64_t seed = 9, int skip_buckets = 0) {
    on(placement, [&](auto& rank) {
        auto& row = rows[static_cast<std::size_t>(rank.rank())];
        R reducer;
        reducer.reserve({.placement = placement,
                         .elements = std::ssize(row),
                         .bucket_elements = std::int64_t(bucket_length),
                         .seed = seed});
        int index = 0;
        for (std::size_t end = row.size(); end > 0; ++index) {
            const std::size_t count = std::min(end, bucket_length);
            end -= count;
            if (index < skip_buckets) continue;
            auto bucket = gx::Bucket(row).part(end, count);
            bucket.gradient = gradient;
            bucket.index = index;
            (void)reducer.all_reduce(rank.transport(), bucket);
        }
    });
    return rows;
}

using gx::detail::quantized::Phase;
using Codec = gx::detail::quantized::BlockCodec<8>;

/// What the codec alone makes of values that begin at `offset`.
std::vector<float> rounded(std::vector<float> values, std::int64_t offset, const gx::Rng& draws) {
    std::vector<std::byte> message(Codec::bytes(values.size()));
    Codec::encode(values, offset, draws, message);
    Codec::decode(message, values);
    return values;
}
/// `count` times x, and 127 where a block of a bucket begins.
std::vector<float> steps_of_one(std::size_t count, float x) {
    std::vector<float> values(count, x);
    for (std::size_t i = 0; i < count; i += 256) values[i] = 127;
    return values;
}
constexpr std::size_t front = 300, length = 7 * 256 + 88;  // of a bucket: 2 blocks a rank, of 4
Rows four_rows() { return Rows(4, std::vector<float>(front + length)); }
std::vector<float> last_bucket(const Rows& rows) {
    return in_buckets<gx::Quantized<>>(gx::testing::OnThreads{}, {1, 4}, rows, length, 5)[3];
}

TEST(Quantized, RoundsAGradientByItsRankAndOffset) {  // the mean of codes / 4 is on the grid
    for (const int rank : {0, 1, 2, 3}) {
        Rows rows = four_rows();
        const auto values = steps_of_one(length, 0.37f);
        std::ranges::copy(values, rows[std::size_t(rank)].begin() + front);
        const auto sent = rounded(values, front, Codec::draws(9, 5, rank, Phase::gradient));
        const auto result = last_bucket(rows);
        for (std::size_t i = 0; i < length; ++i)
            ASSERT_EQ(result[front + i], sent[i] / 4) << "rank " << rank << ", element " << i;
    }
}
TEST(Quantized, RoundsAMeanByItsOwnerAndOffset) {  // gradients are on the grid, means are not
    Rows rows = four_rows();
    for (std::size_t r = 0; r < 4; ++r)
        std::ranges::copy(steps_of_one(length, r == 2 ? 1.0f : 0.0f), rows[r].begin() + front);
    const auto mean = steps_of_one(length, 0.25f);
    const auto result = last_bucket(rows);
    for (int owner = 0; owner < 4; ++owner) {
        const auto sent = rounded(mean, front, Codec::draws(9, 5, owner, Phase::mean));
        for (std::size_t i = std::size_t(owner) * 512;
             i < length && i < std::size_t(owner + 1) * 512; ++i)
            ASSERT_EQ(result[front + i], sent[i]) << "owner " << owner << ", element " << i;
    }
}

RC_GTEST_PROP(Quantized, HasTheSameBitsHoweverRanksAreSpread, ()) {
    const gx::Placement p = *a_placement();
    const Rows rows = some_rows(p);
    const auto gradient = *rc::gen::inRange<std::uint64_t>(0, 1000);
    const auto cut = *rc::gen::inRange<std::size_t>(1, 301);
    const Rows here = in_buckets<gx::Quantized<>>(OnThreads{}, {p.ranks(), 1}, rows, cut, gradient);
    RC_ASSERT(here == in_buckets<gx::Quantized<>>(gx::sim::OnCluster{}, p, rows, cut, gradient));
    for (const auto& row : here) RC_ASSERT(row == here[0]);
}
TEST(Quantized, DoesNotDependOnOtherBuckets) {
    const Rows rows = gx::testing::wide_magnitudes(3, 3, 1000);
    const Rows all = in_buckets<gx::Quantized<>>(OnThreads{}, {1, 3}, rows, 300, 7),
               some = in_buckets<gx::Quantized<>>(OnThreads{}, {1, 3}, rows, 300, 7, 9, 3);
    for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(some[0][i], all[0][i]);
    for (std::size_t i = 100; i < 1000; ++i) EXPECT_EQ(some[0][i], rows[0][i]) << "left out";
}
TEST(Quantized, DrawsOtherNumbersForEachGradientSeedAndOffset) {
    const auto run = [](std::uint64_t gradient, std::uint64_t seed) {
        const Rows rows(2, std::vector<float>(512, 0.37f));
        Rows ends = rows;
        for (auto& row : ends) row[0] = row[256] = 127;
        return in_buckets<gx::Quantized<>>(OnThreads{}, {1, 2}, ends, 256, gradient, seed)[0];
    };
    const auto first = run(0, 1);
    EXPECT_EQ(run(0, 1), first);
    EXPECT_NE(run(1, 1), first);
    EXPECT_NE(run(0, 2), first);
    EXPECT_FALSE(std::equal(first.begin(), first.begin() + 256, first.begin() + 256));
}

// ---- A fault ------------------------------------------------------------------------
TEST(Quantized, SaysSoWhenARankIsLost) {
    Rows rows(3, std::vector<float>(700, 1.0f));
    const auto report = reduce_on<gx::Quantized<>>({.ranks = 3, .dead_rank = 2}, rows);
    EXPECT_FALSE(report.complete());
    EXPECT_EQ(report.delivery.peer, 2);
}

}  // namespace
