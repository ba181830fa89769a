// AllReduce: NCCL's own sum, within its bound, equal on all ranks, in an order of its own.
#include <gx/nccl/all_reduce.hpp>

#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include <gx/testing/bounds.hpp>
#include <gx/testing/rows.hpp>

#include <gx/nccl/transport.hpp>

#include "nccl_world.hpp"

namespace {

using namespace gx;
using namespace gx::testing;
using nccl_tests::every_progress;
using nccl_tests::reduce_on_nccl;
using nccl_tests::start;

static_assert(Reducer<nccl::AllReduce<fp16>> && Reducer<nccl::AllReduce<>>);

template <class R>
class NcclAllReduce : public ::testing::Test {};
using Reducers = ::testing::Types<nccl::AllReduce<fp32>, nccl::AllReduce<fp16>,
                                  nccl::AllReduce<bf16>, nccl::AllReduce<fp16, DivideAfter>>;
TYPED_TEST_SUITE(NcclAllReduce, Reducers);

/// Small integers are exact in any order where the rank count is a power of two.
TYPED_TEST(NcclAllReduce, IsTheMean) {
    for (const int n : {1, 2, 4, 8})
        for (const auto progress : every_progress) {
            start(progress, 1);
            const Rows rows = small_integers(7, n, 50);
            const auto mean = column_means(rows);
            for (const auto& row : reduce_on_nccl<TypeParam>(rows, {n, 1}))
                for (std::size_t i = 0; i < mean.size(); ++i)
                    ASSERT_EQ(row[i], static_cast<float>(mean[i]));
            cuda_testing::expect_clean();
        }
}
TYPED_TEST(NcclAllReduce, StaysWithinTheBoundOfItsWire) {
    for (const int n : {3, 5, 6, 7}) {
        start(every_progress[n % 3], 2);
        const Rows rows = wide_magnitudes(9, n, 200);
        const auto mean = column_means(rows);
        const auto bound = mean_bounds(wire_limits<typename TypeParam::wire_type>(), rows);
        const Rows got = reduce_on_nccl<TypeParam>(rows, {n, 1});
        for (const auto& row : got) {
            EXPECT_EQ(row, got[0]);
            for (std::size_t i = 0; i < mean.size(); ++i)
                ASSERT_LE(std::abs(double{row[i]} - mean[i]), bound[i]);
        }
    }
}

TEST(NcclAllReduceOrder, IsNotPromised) {
    const Rows rows = wide_magnitudes(3, 5, 100);
    std::set<std::vector<float>> results;
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        start(nccl_tests::StreamProgress::eager, seed);
        results.insert(reduce_on_nccl<nccl::AllReduce<fp16>>(rows, {5, 1})[0]);
    }
    EXPECT_GT(results.size(), 1u);
}
TEST(NcclAllReduceOrder, OneCallForABucket) {
    start(nccl_tests::StreamProgress::late, 1);
    const auto mark = nccl_testing::counters();
    const auto got =
        nccl_tests::reduce_jobs_on_nccl<nccl::AllReduce<fp16>>({small_integers(1, 3, 10)}, {3, 1});
    const auto done = nccl_testing::counters() - mark;
    EXPECT_EQ(done.collectives, 3);
    EXPECT_EQ(done.sends, 0);
    EXPECT_EQ(got.reports[0][0].bytes_sent, 20);
    EXPECT_EQ(nccl::AllReduce<fp16>::name(), "nccl::AllReduce<fp16>");
    EXPECT_EQ((nccl::AllReduce<fp32, DivideAfter>::name()), "nccl::AllReduce<fp32, DivideAfter>");
}
TEST(NcclAllReduceOrder, ALostRankIsNamed) {
    for (const auto progress : every_progress) {
        start(progress, 1);
        std::vector<Delivery> seen(3);
        (void)nccl_tests::reduce_jobs_on_nccl<nccl::AllReduce<fp16>>({small_integers(1, 3, 10)},
                                                                     {3, 1}, 1, &seen);
        for (const int r : {0, 2}) EXPECT_EQ(seen[static_cast<std::size_t>(r)].peer, 1);
        cuda_testing::expect_clean();
    }
}

}  // namespace
