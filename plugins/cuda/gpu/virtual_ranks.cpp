// Several ranks on each GPU that is there: all reducers by the conformance kit, and training by
// cuda::Device. NCCL lets no two ranks share a GPU; PeerTransport does.
// Run:  plugins.cuda.gpu.virtual_ranks   skipped without a GPU
#include <cstdio>

#include <gtest/gtest.h>

#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/testing/conformance.hpp>
#include <gx/testing/on_device.hpp>

#include <support/all_reducers.hpp>  // DeviceReducers

#include "../src/cudnn/tests/trained_weights.hpp"

namespace {

using namespace gx;
using namespace gx::cuda_tests;
using namespace gx::testing;

/// The hardware decides the order of queued work.
struct OnVirtualRanks {
    template <class F>
    void operator()(Placement placement, F f) const {
        GpuWorld<> world(placement);
        try {
            world.run(f);
        } catch (const LostRank&) {  // the reports of the ranks show it
        }
    }
    [[nodiscard]] OnVirtualRanks reordered(std::uint64_t) const { return {}; }
};
template <class R>
using OnGpu = OnDevice<R, GpuWorld<>::Rank>;

template <class R>
class VirtualRanks : public ::testing::Test {};
TYPED_TEST_SUITE(VirtualRanks, testing_support::DeviceReducers::as<::testing::Types>);

TYPED_TEST(VirtualRanks, EndWithTheBitsOfThreads) {
    ConformanceReport report;
    check_worlds<OnGpu<TypeParam>>(OnThreads{}, OnVirtualRanks{}, 1, report);
    check_lost_rank<OnGpu<TypeParam>>(OnVirtualRanks{}, 1, report);
    std::printf("%s: %s\n", reducer_name<TypeParam>().c_str(), report.summary().c_str());
    EXPECT_TRUE(report.empty()) << report.text();
    EXPECT_TRUE(report.skipped.empty());
    EXPECT_GT(report.values, 1000);
}

// ---- Training ----------------------------------------------------------------------------------

TEST(TrainingOnVirtualRanks, HasWeightsNearTheReferences) {
    expect_weights<CifarResNet<8>, fp16>(0x1p-9, 2);  // of others a bound would be above 1
    for (const int ranks : {1, 2, 4}) {
        expect_weights<CifarResNet<8>, fp32>(0x1p-16, ranks);
        expect_weights<DropoutNet, fp32>(0x1p-16, ranks);
        expect_weights<DropoutNet, fp16>(0x1p-9, ranks);
    }
}

template <class T>
void expect_same_bits_again(int ranks) {
    const auto data = maps(std::int64_t{9} * ranks);
    const T trainer({.batch = 2, .epochs = 2, .seed = 3});
    Gpus once({ranks, 1}), again({ranks, 1});
    testing_support::expect_same_learning(trainer.train(again, data), trainer.train(once, data));
}
TEST(TrainingOnVirtualRanks, HasTheSameBitsAgain) {
    for (const int ranks : {1, 4}) {
        expect_same_bits_again<
            Trainer<CifarResNet<8>, DoubleBuffered<MultiRing<2, fp16>>, Constant, Compute<bf16>>>(
            ranks);
        expect_same_bits_again<
            Trainer<DropoutNet, Bucketed<Ring<fp16>, 4096>, Constant, Compute<fp16>>>(ranks);
    }
}

}  // namespace
