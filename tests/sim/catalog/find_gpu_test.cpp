#include <gx/sim/catalog/find_gpu.hpp>  // first, so the header is seen to stand alone

#include <string>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::sim::find_gpu;
using gx::sim::GpuSpec;
using gx::sim::Precision;
using namespace gx::literals;

// ---- What the type promises ---------------------------------------------------------
static_assert(gx::sim::v100().has_tensor_cores() && !gx::sim::p100().has_tensor_cores());
static_assert(gx::sim::a100_40gb().peak(Precision::tf32).count == 156e12);
static_assert(gx::sim::v100().peak(Precision::tf32) == gx::sim::v100().fp32, "no TF32 before A100");
static_assert(gx::sim::v100().peak(Precision::mixed, false).count == 31.4e12);
static_assert(gx::sim::h200().memory == 141_GB);

std::string named(std::string_view written) { return std::string(find_gpu(written).name.view()); }
std::string complaint(std::string_view written) {
    try {
        (void)find_gpu(written);
    } catch (const gx::Error& e) {
        return e.what();
    }
    return "";
}

// ---- Spellings of published results -------------------------------------------------
TEST(FindGpu, UnderstandsWhatPeopleWrite) {
    EXPECT_EQ(named("K80 (one die)"), "K80");
    EXPECT_EQ(named("P100-SXM2 (DGX-1)"), "P100-SXM2-16GB");
    EXPECT_EQ(named("P100-SXM2 (Big Basin)"), "P100-SXM2-16GB");
    EXPECT_EQ(named("P100"), "P100-SXM2-16GB");
    EXPECT_EQ(named("P100-PCIe"), "P100-PCIe-16GB");
    EXPECT_EQ(named("Pascal GPU (4 per server, 2 per CPU socket)"), "P100-PCIe-16GB");
    EXPECT_EQ(named("P40"), "P40");
    EXPECT_EQ(named("Titan X Pascal"), "Titan-X-Pascal");
    EXPECT_EQ(named("GTX 1080 Ti"), "GTX-1080-Ti");
    EXPECT_EQ(named("GeForce GTX 1080Ti"), "GTX-1080-Ti");
    EXPECT_EQ(named("V100"), "V100-SXM2-16GB");
    EXPECT_EQ(named("Tesla V100"), "V100-SXM2-16GB");
    EXPECT_EQ(named("V100 (DGX-1 class, 8 per node)"), "V100-SXM2-16GB");
    EXPECT_EQ(named("V100 (C4140)"), "V100-SXM2-16GB");
    EXPECT_EQ(named("V100-PCIe"), "V100-PCIe-16GB");
    EXPECT_EQ(named("V100-32GB"), "V100-SXM2-32GB");
    EXPECT_EQ(named("V100-32GB (p3dn.24xlarge)"), "V100-SXM2-32GB");
    EXPECT_EQ(named("V100-SXM2-32GB (p3dn.24xlarge)"), "V100-SXM2-32GB");
    EXPECT_EQ(named("V100-SXM3-32GB"), "V100-SXM3-32GB");
    EXPECT_EQ(named("V100-SXM3-32GB (DGX-2)"), "V100-SXM3-32GB");
    EXPECT_EQ(named("V100-SXM3-32GB (DGX-2H)"), "V100-SXM3-32GB-H");
    EXPECT_EQ(named("A100"), "A100-SXM4-40GB");
    EXPECT_EQ(named("A100-SXM4-80GB"), "A100-SXM4-80GB");
    EXPECT_EQ(named("A100-PCIe-80GB"), "A100-PCIe-80GB");
    EXPECT_EQ(named("NVIDIA A100 80GB PCIe"), "A100-PCIe-80GB");
    EXPECT_EQ(named("H100-SXM5-80GB"), "H100-SXM5-80GB");
    EXPECT_EQ(named("H100"), "H100-SXM5-80GB");
    EXPECT_EQ(named("h200"), "H200-SXM5-141GB");
    EXPECT_EQ(named("K80 12GB PCIe"), "K80");
    EXPECT_EQ(named("Tesla P100-PCIE-12GB"), "P100-PCIe-12GB");
    EXPECT_EQ(named("Tesla V100-PCIE-32GB"), "V100-PCIe-32GB");
}
TEST(FindGpu, TellsBoardsApartThatShareAWord) {
    EXPECT_EQ(named("TITAN X (Pascal)"), "Titan-X-Pascal");
    EXPECT_EQ(named("GeForce GTX TITAN X (Maxwell)"), "Titan-X-Maxwell");
    EXPECT_EQ(named("Titan Xp"), "Titan-Xp");
    EXPECT_EQ(named("TITAN V"), "Titan-V");
    EXPECT_EQ(named("GTX 1080"), "GTX-1080");
    EXPECT_EQ(named("GTX1080Ti (Pascal)"), "GTX-1080-Ti");
    EXPECT_EQ(named("RTX2080Ti"), "RTX-2080-Ti");
    EXPECT_EQ(named("Tesla K40m"), "K40");
    EXPECT_EQ(named("Tesla M40"), "M40");
    EXPECT_EQ(named("NVIDIA T4 16GB"), "T4");
    EXPECT_EQ(named("NVIDIA RTX A6000"), "RTX-A6000");
    EXPECT_EQ(named("V100S"), "V100S-PCIe-32GB");
    EXPECT_EQ(named("H800"), "H800-SXM5-80GB");
}
TEST(FindGpu, KnowsTheGpusOfMachinesAndGenerations) {
    EXPECT_EQ(named("p3.16xlarge"), "V100-SXM2-16GB");
    EXPECT_EQ(named("p3dn.24xlarge"), "V100-SXM2-32GB");
    EXPECT_EQ(named("p4de.24xlarge"), "A100-SXM4-80GB");
    EXPECT_EQ(named("p5.48xlarge"), "H100-SXM5-80GB");
    EXPECT_EQ(named("a2-highgpu-8g"), "A100-SXM4-40GB");
    EXPECT_EQ(named("Piz Daint"), "P100-PCIe-16GB");
    EXPECT_EQ(named("Standard_ND40rs_v2"), "V100-SXM2-32GB");
    EXPECT_EQ(named("Volta"), "V100-SXM2-16GB");
}

RC_GTEST_PROP(FindGpu, FindsEveryGpuByItsOwnName, ()) {
    const auto which = *rc::gen::inRange<std::size_t>(0, gx::sim::known_gpus.size());
    const GpuSpec& gpu = gx::sim::known_gpus[which];
    std::string typed(gpu.name.view());
    for (char& c : typed)
        if (*rc::gen::arbitrary<bool>() && 'A' <= c && c <= 'Z') c = char(c - 'A' + 'a');
    RC_ASSERT(find_gpu(typed).name == gpu.name);
    RC_ASSERT(gpu.memory.count > 0 && gpu.memory_bandwidth.count > 0 && gpu.multiprocessors > 0);
    RC_ASSERT(gpu.launch.count() > 0 && gpu.fp32.count > 0 && gpu.tensor_fp16 >= gpu.fp32);
    for (const Precision p : {Precision::fp32, Precision::mixed, Precision::tf32}) {
        const gx::sim::Efficiency& e = gpu.efficiency(p);
        RC_ASSERT(e.convolution > 0 && e.convolution <= 1.2 && e.linear > 0 && e.linear <= 1);
        RC_ASSERT(e.memory > 0 && e.memory <= 1);
        RC_ASSERT(gpu.peak(p, false) <= gpu.peak(p));
    }
}

TEST(NamesGpu, ComparesWhatANameSays) {
    const GpuSpec a100 = find_gpu("A100-SXM4-40GB");
    for (const char* name : {"A100", "NVIDIA A100-SXM4-40GB", "p4d with A100", "a100 40GB"})
        EXPECT_TRUE(gx::sim::names_gpu(name, a100)) << name;
    for (const char* name : {"", "V100", "NVIDIA A100 80GB PCIe", "A100-PCIe", "RTX 3090"})
        EXPECT_FALSE(gx::sim::names_gpu(name, a100)) << name;
}

// ---- Bad input ----------------------------------------------------------------------
TEST(FindGpu, NamesTheNearestOfAnUnknownOne) {
    EXPECT_EQ(complaint("V10"), "unknown GPU 'v10': did you mean 'V100'?");
    EXPECT_NE(complaint("TPU v3").find("known are K80, P100-SXM2-16GB"), std::string::npos);
    EXPECT_NE(complaint("").find("unknown GPU ''"), std::string::npos);
}
TEST(FindGpu, SaysWhatAFamilyHasWhenAFormIsUnknown) {
    EXPECT_EQ(complaint("H200-PCIe"),
              "no GPU 'H200-PCIe' is known: of its family there are H200-SXM5-141GB");
    EXPECT_NE(complaint("V100-SXM2-80GB").find("V100-SXM2-16GB, V100-SXM2-32GB"),
              std::string::npos);
}

}  // namespace
