#include <tools/predict/gpu_proxy.hpp>  // first, so the header is seen to stand alone

#include <string>
#include <vector>

#include <gmock/gmock.h>  // HasSubstr

#include <gx/core/error.hpp>            // Error
#include <gx/sim/catalog/find_gpu.hpp>  // known GPUs

namespace {

using namespace gx::tools::predict;
using gx::sim::GpuSpec;

// ---- Known GPUs and proxies ----------------------------------------------
TEST(GpuProxy, AKnownGpuIsItself) {
    std::vector<std::string> remarks;
    EXPECT_EQ(gpu_or_proxy("Tesla V100", remarks).name, gx::sim::v100().name);
    EXPECT_TRUE(remarks.empty());
}
TEST(GpuProxy, AnotherIsTheNearestWithItsOwnMemory) {
    std::vector<std::string> remarks;
    const GpuSpec gpu = gpu_or_proxy("AMD Instinct MI300X", remarks);
    EXPECT_EQ(gpu.name, gx::sim::h100().name);
    EXPECT_EQ(gpu.memory_bandwidth.count, 5300e9);
    ASSERT_EQ(remarks.size(), 1u);
    EXPECT_THAT(remarks[0], testing::HasSubstr("'AMD Instinct MI300X': taken as H100"));
}
TEST(GpuProxy, NamesOfSeveralWordsAreReadWhole) {
    std::vector<std::string> remarks;
    EXPECT_EQ(gpu_or_proxy("NVIDIA TITAN RTX", remarks).name,
              gx::sim::find_gpu("RTX 2080 Ti").name);
    EXPECT_EQ(gpu_or_proxy("GTX Titan", remarks).name, gx::sim::find_gpu("K40").name);
    EXPECT_EQ(gpu_or_proxy("RTX 6000 Ada", remarks).name, gx::sim::find_gpu("L40S").name);
    EXPECT_EQ(gpu_or_proxy("DGX-1", remarks).name, gx::sim::v100().name);
    EXPECT_EQ(gpu_or_proxy("DGX-1P", remarks).name, gx::sim::p100().name);
    for (const char* none :
         {"not stated", "", "NVIDIA GPUs (model unknown)", "not named, 40 GB", "n/a", "TBD"}) {
        remarks.clear();
        EXPECT_EQ(gpu_or_proxy(none, remarks).name, gx::sim::v100().name);
        EXPECT_THAT(remarks, testing::ElementsAre("GPU not stated: V100 assumed")) << none;
    }
    remarks.clear();
    EXPECT_EQ(gpu_or_proxy("A100-SXM4 (40 or 80 GB, not stated which)", remarks).name,
              gx::sim::find_gpu("A100-SXM4").name);
    EXPECT_EQ(gpu_or_proxy("RTX 4090, count unknown", remarks).name,
              gpu_or_proxy("RTX 4090", remarks).name);
    for (const std::string& r : remarks)
        EXPECT_THAT(r, testing::Not(testing::HasSubstr("assumed")));
}

// ---- A property of every row --------------------------------------------------------
TEST(GpuProxy, EveryProxyIsAKnownGpuAndIsFound) {
    for (const auto& s : gpu_proxies()) {
        std::vector<std::string> remarks;
        EXPECT_NO_THROW((void)gx::sim::find_gpu(s.proxy)) << s.word;
        const GpuSpec gpu = gpu_or_proxy(s.word, remarks);
        EXPECT_EQ(gpu.memory_bandwidth.count, s.memory_gb_per_s * 1e9) << s.word;
        EXPECT_EQ(remarks.size(), 1u) << s.word << " is known by find_gpu";
    }
}

// ---- Bad input ----------------------------------------------------------------------
TEST(GpuProxy, AnUnknownNameHasNoProxy) {
    std::vector<std::string> remarks;
    EXPECT_THROW((void)gpu_or_proxy("V10", remarks), gx::Error);
    EXPECT_THROW((void)gpu_or_proxy("a GPU of next year", remarks), gx::Error);
}

// ---- Names near others ----------------------------------------------------------------
TEST(GpuProxy, SeveralOfOneAreThatOne) {
    std::vector<std::string> remarks;
    EXPECT_EQ(gpu_or_proxy("8 V100s", remarks).name, gpu_or_proxy("V100", remarks).name);
    EXPECT_EQ(gpu_or_proxy("V100s (DGX-1)", remarks).name, gpu_or_proxy("V100", remarks).name);
    EXPECT_EQ(gpu_or_proxy("L40s", remarks).name, gpu_or_proxy("L40S", remarks).name);
    EXPECT_EQ(gpu_or_proxy("a2-highgpu-8g", remarks).name, gpu_or_proxy("A100", remarks).name);
}
TEST(GpuProxy, TwoFamiliesAndAnA2AreRefused) {
    std::vector<std::string> remarks;
    for (const char* text : {"A100 and V100", "V100, A100", "P100/V100", "TPU v3 (vs V100)", "A2"})
        EXPECT_THROW((void)gpu_or_proxy(text, remarks), gx::Error) << text;
}

}  // namespace
