// AllReduceSpeed over the double of NCCL: that it runs; the double's times mean nothing.
#include "../gpu/all_reduce_speed.hpp"

#include <gtest/gtest.h>

#include "nccl_world.hpp"

namespace {

using namespace gx;

constexpr std::int64_t sizes[] = {1, 1000};

TEST(AllReduceSpeed, HasARowForEachReducerAndSize) {
    for (const int n : {1, 3}) {
        nccl_tests::start(cuda_testing::StreamProgress::late, 1);
        const auto rows = nccl::all_reduce_speeds_of<nccl::AllReduce<fp16>, MultiRing<4, fp16>>(
            {.placement = {1, n}}, sizes, {.in_a_row = 3, .repetitions = 2});
        ASSERT_EQ(rows.size(), 4u);
        for (std::size_t i = 0; i < rows.size(); ++i) {
            EXPECT_EQ(rows[i].reducer, i < 2 ? "nccl::AllReduce<fp16>" : "MultiRing<4, fp16>");
            EXPECT_EQ(rows[i].elements, sizes[i % 2]);
            EXPECT_EQ(rows[i].wire_bytes, 2 * sizes[i % 2]);
            EXPECT_EQ(rows[i].ranks, n);
            EXPECT_GT(rows[i].seconds, 0);
            EXPECT_GT(rows[i].native_seconds, 0);
        }
        cuda_testing::expect_clean();
    }
}

TEST(AllReduceSpeed, CountsWhatARingSends) {
    const nccl::AllReduceSpeed row{
        .wire_bytes = 1000, .ranks = 4, .seconds = 0.5, .native_seconds = 0.25};
    EXPECT_EQ(row.bus_bytes_per_second(), 2 * 0.75 * 1000 / 0.5);
    EXPECT_EQ(row.times_native(), 2);
    EXPECT_EQ(
        (nccl::AllReduceSpeed{.wire_bytes = 8, .ranks = 1, .seconds = 1}.bus_bytes_per_second()),
        0);
}

}  // namespace
