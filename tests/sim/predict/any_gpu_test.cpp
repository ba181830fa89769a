#include <gx/sim/predict/any_gpu.hpp>  // first, so the header is seen to stand alone

#include <string>
#include <vector>

#include <gmock/gmock.h>  // HasSubstr

namespace {

using namespace gx::sim::predict;
using gx::sim::GpuSpec;

// ---- What is known, and what stands in ----------------------------------------------
TEST(AnyGpu, AKnownGpuIsItself) {
    std::vector<std::string> remarks;
    EXPECT_EQ(any_gpu("Tesla V100", remarks).name, gx::sim::v100().name);
    EXPECT_TRUE(remarks.empty());
}
TEST(AnyGpu, AnotherIsTheNearestWithItsOwnMemory) {
    std::vector<std::string> remarks;
    const GpuSpec gpu = any_gpu("AMD Instinct MI300X", remarks);
    EXPECT_EQ(gpu.name, gx::sim::h100().name);
    EXPECT_EQ(gpu.memory_bandwidth.count, 5300e9);
    ASSERT_EQ(remarks.size(), 1u);
    EXPECT_THAT(remarks[0], testing::HasSubstr("'AMD Instinct MI300X': taken as H100"));
}
TEST(AnyGpu, NamesOfSeveralWordsAreReadWhole) {
    std::vector<std::string> remarks;
    EXPECT_EQ(any_gpu("NVIDIA TITAN RTX", remarks).name, gx::sim::rtx_2080_ti().name);
    EXPECT_EQ(any_gpu("GTX Titan", remarks).name, gx::sim::k40().name);
    EXPECT_EQ(any_gpu("RTX 6000 Ada", remarks).name, gx::sim::l40s().name);
    EXPECT_EQ(any_gpu("DGX-1", remarks).name, gx::sim::v100().name);
    EXPECT_EQ(any_gpu("DGX-1P", remarks).name, gx::sim::p100().name);
    EXPECT_EQ(any_gpu("not stated", remarks).name, gx::sim::v100().name);
    EXPECT_THAT(remarks.back(), testing::HasSubstr("GPU not stated"));
}

// ---- A property of every row --------------------------------------------------------
TEST(AnyGpu, EveryStandInIsAKnownGpuAndIsFound) {
    for (const StandIn& s : stand_ins) {
        std::vector<std::string> remarks;
        EXPECT_NO_THROW((void)gx::sim::find_gpu(s.taken)) << s.word;
        const GpuSpec gpu = any_gpu(s.word, remarks);
        EXPECT_EQ(gpu.memory_bandwidth.count, s.gb_s * 1e9) << s.word;
        EXPECT_EQ(remarks.size(), 1u) << s.word << " is known by find_gpu";
    }
}

// ---- Bad input ----------------------------------------------------------------------
TEST(AnyGpu, AnUnknownNameHasNoStandIn) {
    std::vector<std::string> remarks;
    EXPECT_THROW((void)any_gpu("V10", remarks), gx::Error);
    EXPECT_THROW((void)any_gpu("a GPU of next year", remarks), gx::Error);
}

}  // namespace
