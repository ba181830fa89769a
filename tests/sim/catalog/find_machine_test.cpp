#include <gx/sim/catalog/find_machine.hpp>  // first, so the header is seen to stand alone

#include <set>  // ranks of a ring

#include <gtest/gtest.h>

#include <gx/sim/catalog/cluster_of.hpp>  // cluster_of, find_profile
#include <gx/sim/hardware/validate.hpp>   // check

namespace {

using gx::sim::MachineSpec;
using gx::sim::Wiring;
using namespace gx::literals;

// ---- What the data promise ----------------------------------------------------------
static_assert(gx::sim::machine::p3_16xlarge().price.count == 24.48);
static_assert(gx::sim::machine::dgx_a100().nics == 8);

TEST(FindMachine, EveryMachineCanBeBuiltAndIsFoundByItsName) {
    for (const auto make : gx::sim::machine_makers) {
        const MachineSpec m = make();
        EXPECT_NO_THROW(check(m)) << m.name.view();
        EXPECT_EQ(gx::sim::find_machine(m.name).name, m.name);
        EXPECT_GT(m.gpu.memory.count, 0) << m.name.view();
        EXPECT_GT(m.host_memory.count, 0) << m.name.view();
        EXPECT_FALSE(m.price_date.view().empty()) << m.name.view();
        EXPECT_TRUE(m.spot_price.count < m.price.count || m.price.count == 0) << m.name.view();
    }
}
TEST(FindMachine, NetworksCarryWhatTheProfileOfTheMachineAsks) {
    for (const auto make : gx::sim::machine_makers) {
        const MachineSpec m = make();
        if (m.profile.view().empty()) continue;
        const auto stack = gx::sim::find_profile(m.profile.view());
        EXPECT_TRUE(stack.has_collective && stack.has_transport) << m.name.view();
        EXPECT_NO_THROW((void)gx::sim::cluster_of(m, 2, stack)) << m.name.view();
    }
}
TEST(FindMachine, APriceOfAllGpusIsThatOfOneTimesTheirNumber) {
    EXPECT_DOUBLE_EQ(gx::sim::find_machine("p2.16xlarge").price.count, 16 * 0.90);
    EXPECT_DOUBLE_EQ(gx::sim::find_machine("p3.16xlarge").price.count, 8 * 3.06);
}

TEST(FindMachine, RatesOfAllNicsAreThoseThatTheCloudStates) {
    const auto gigabits = [](const char* name) {
        const MachineSpec m = gx::sim::find_machine(name);
        return m.nics * m.nic_line_rate.count * 8e-9;
    };
    EXPECT_DOUBLE_EQ(gigabits("p3dn.24xlarge"), 100);
    EXPECT_DOUBLE_EQ(gigabits("p4d.24xlarge"), 400);
    EXPECT_DOUBLE_EQ(gigabits("p5.48xlarge"), 3200);
    EXPECT_DOUBLE_EQ(gigabits("p4de.24xlarge"), 400);
    EXPECT_DOUBLE_EQ(gigabits("p5e.48xlarge"), 32 * 100);
    EXPECT_DOUBLE_EQ(gigabits("p5en.48xlarge"), 16 * 200);
    EXPECT_DOUBLE_EQ(gigabits("g4dn.xlarge"), 5);
    EXPECT_DOUBLE_EQ(gigabits("g4dn.12xlarge"), 50);
    EXPECT_DOUBLE_EQ(gigabits("g4dn.metal"), 100);
    EXPECT_DOUBLE_EQ(gigabits("g5.xlarge"), 2.5);
    EXPECT_DOUBLE_EQ(gigabits("g5.48xlarge"), 100);
    EXPECT_DOUBLE_EQ(gigabits("NC24rs_v3"), 56);
    EXPECT_DOUBLE_EQ(gigabits("NC96ads_A100_v4"), 80);
    EXPECT_DOUBLE_EQ(gigabits("ND40rs_v2"), 100);
    EXPECT_DOUBLE_EQ(gigabits("ND96asr_v4"), 1600);
    EXPECT_DOUBLE_EQ(gigabits("ND96amsr_A100_v4"), 1600);
    EXPECT_DOUBLE_EQ(gigabits("ND96isr_H100_v5"), 3200);
    EXPECT_DOUBLE_EQ(gigabits("n1-standard-96-8xV100"), 32);
    for (const char* name : {"a2-highgpu-8g", "a2-megagpu-16g", "a2-ultragpu-8g", "g2-standard-96"})
        EXPECT_DOUBLE_EQ(gigabits(name), 100) << name;
    EXPECT_DOUBLE_EQ(gigabits("a3-highgpu-8g"), 1000 - 200) << "the fifth is the host's";
    EXPECT_DOUBLE_EQ(gigabits("a3-megagpu-8g"), 1800 - 200) << "the ninth is the host's";
}

// ---- Links, against the data sheets -------------------------------------------------
int links_of(const Wiring& w, std::size_t gpu) {
    int sum = 0;
    for (const unsigned char n : w.nvlinks[gpu]) sum += n;
    return sum;
}
TEST(FindMachine, MeshesUseEveryLinkOfTheirGpus) {
    for (std::size_t g = 0; g < 8; ++g) {
        EXPECT_EQ(links_of(gx::sim::find_machine("DGX-1V").wiring, g), 6) << g;
        EXPECT_EQ(links_of(gx::sim::find_machine("DGX-1P").wiring, g), 4) << g;
    }
}
TEST(FindMachine, RingsVisitEveryGpuOnceAndShareNoLink) {
    for (const auto make : gx::sim::machine_makers) {
        const MachineSpec m = make();
        const auto gpus = static_cast<std::size_t>(m.gpus);
        auto left = m.wiring.nvlinks;
        for (int k = 0; k < m.wiring.ring_count; ++k) {
            const auto& ring = m.wiring.rings[static_cast<std::size_t>(k)];
            EXPECT_EQ(std::set(ring.begin(), ring.begin() + m.gpus).size(), gpus);
            if (m.wiring.ring_count == 1) continue;  // NVSwitch or PCIe: any order will do
            for (std::size_t i = 0; i < gpus; ++i) {
                const std::size_t a = ring[i], b = ring[(i + 1) % gpus];
                EXPECT_GT(left[a][b], 0) << m.name.view() << " ring " << k << ": " << a;
                --left[a][b];
                --left[b][a];
            }
        }
        if (m.gpus == 8 && m.wiring.ring_count > 1) {
            EXPECT_EQ(left, decltype(left){}) << m.name.view() << ": every link is in a ring";
        }
    }
}

std::string refusal(const char* name) {
    try {
        return std::string(gx::sim::find_machine(name).name.view()) + " was found";
    } catch (const gx::Error& e) {
        return e.what();
    }
}

// ---- Bad input ----------------------------------------------------------------------
TEST(FindMachine, AnUnknownNameIsAnsweredWithTheNearest) {
    const std::string all = "known are p2.xlarge, p2.8xlarge, p2.16xlarge, p3.2xlarge, p3.8xlarge";
    EXPECT_TRUE(
        refusal("p3.16xlagre")
            .starts_with("unknown machine 'p3.16xlagre': did you mean 'p3.16xlarge'? (" + all))
        << refusal("p3.16xlagre");
    EXPECT_TRUE(refusal("p5").starts_with("unknown machine 'p5': did you mean 'p5.48xlarge'?"));
    EXPECT_TRUE(refusal("cray").starts_with("unknown machine 'cray': " + all)) << refusal("cray");
    EXPECT_TRUE(refusal("n1-standard-96").find("mean 'n1-standard-96-8xV100'?") !=
                std::string::npos)
        << refusal("n1-standard-96");
    EXPECT_TRUE(refusal("NC40ads_H100_v5").find("with that GPU are p5.48xl") != std::string::npos)
        << refusal("NC40ads_H100_v5") << " and not NC96ads_A100_v4, which is near";
    EXPECT_TRUE(refusal("ND96isr_H100_v4").find("mean 'ND96isr_H100_v5'?") != std::string::npos)
        << refusal("ND96isr_H100_v4");
}
TEST(FindMachine, AzuresSizesMayHaveTheirWholeNames) {
    for (const auto make : gx::sim::machine_makers) {  // find_machine tells Azure's by it
        const std::string name(make().name.view());
        EXPECT_EQ(name[0] == 'N', name.starts_with("NC") || name.starts_with("ND")) << name;
    }
    EXPECT_EQ(refusal("Standard_ND96asr_v4"), "ND96asr_v4 was found");
    for (const char* name : {"Standard_ND40rs_v3", "standard_nd40rs_v2"})
        EXPECT_TRUE(refusal(name).starts_with("unknown machine '" + std::string(name) +
                                              "': did you mean 'ND40rs_v2'?"))
            << refusal(name);
    for (const char* name : {"Standard_p3.2xlarge", "Standard_Standard_ND40rs_v2"})
        EXPECT_TRUE(refusal(name).starts_with("unknown machine '" + std::string(name)))
            << refusal(name);
}
TEST(FindMachine, TheNameOfAGpuIsAnsweredWithTheMachinesThatHaveIt) {
    for (const char* name : {"A100", "a100", "NVIDIA A100"})
        EXPECT_TRUE(
            refusal(name).starts_with("unknown machine '" + std::string(name) +
                                      "': machines with that GPU are p4d.24xlarge, "
                                      "p4de.24xlarge, DGX-A100, NC96ads_A100_v4, ND96asr_v4, "
                                      "ND96amsr_A100_v4, a2-highgpu-8g, "
                                      "a2-megagpu-16g, a2-ultragpu-8g; known are "
                                      "p2.xlarge, "))
            << refusal(name);
    EXPECT_NE(refusal("V100 32GB").find("that GPU are p3dn.24xlarge, DGX-2, ND40rs_v2; known"),
              std::string::npos)
        << refusal("V100 32GB");
    EXPECT_NE(refusal("RTX 3090").find("no known machine has that GPU; known are"),
              std::string::npos)
        << refusal("RTX 3090");
}

}  // namespace
