// Reductions on nccl::World over 1, 2, 4 ... GPUs of this machine: NCCL lets two ranks share none.
// Run:  plugins.nccl.gpu.reductions   skipped without a GPU; says how many there are
#include <cmath>

#include <gtest/gtest.h>

#include <gx/nccl/all_reduce.hpp>
#include <gx/nccl/transport.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/testing/bounds.hpp>
#include <gx/testing/rows.hpp>

#include "../tests/nccl_world.hpp"

namespace {

using namespace gx;
using namespace gx::testing;

std::vector<int> counts_of_ranks() {
    int gpus = 0;
    EXPECT_EQ(cudaGetDeviceCount(&gpus), cudaSuccess);
    std::printf("%d GPUs\n", gpus);
    std::vector<int> counts;
    for (int n = 1; n <= gpus; n *= 2) counts.push_back(n);
    return counts;
}

template <class R>
class NcclOnGpus : public ::testing::Test {};
using Reducers = ::testing::Types<nccl::AllReduce<fp32>, nccl::AllReduce<fp16>, Ring<fp32>,
                                  MultiRing<4, fp16>, MultiRing<4, bf16>>;
TYPED_TEST_SUITE(NcclOnGpus, Reducers);

/// Small integers are exact in any order where the rank count is a power of two.
TYPED_TEST(NcclOnGpus, IsTheMean) {
    for (const int n : counts_of_ranks())
        for (const int elements : {1, 50, 100'003}) {
            const Rows rows = small_integers(7, n, elements);
            const auto mean = column_means(rows);
            for (const auto& row : nccl_tests::reduce_on_nccl<TypeParam>(rows, {n, 1}))
                for (std::size_t i = 0; i < mean.size(); ++i)
                    ASSERT_EQ(row[i], static_cast<float>(mean[i])) << n << " ranks, element " << i;
        }
}

TYPED_TEST(NcclOnGpus, GivesAllRanksOneResultTwice) {
    for (const int n : counts_of_ranks()) {
        const Rows rows = wide_magnitudes(9, n, 4099);
        const Rows got = nccl_tests::reduce_on_nccl<TypeParam>(rows, {n, 1});
        for (const auto& row : got) EXPECT_EQ(row, got[0]);
        EXPECT_EQ(nccl_tests::reduce_on_nccl<TypeParam>(rows, {n, 1}), got);
    }
}

}  // namespace
