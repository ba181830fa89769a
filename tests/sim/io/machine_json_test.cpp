#include <gx/sim/io/machine_json.hpp>  // first, so the header is seen to stand alone

#include <string>  // sentences

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/reflect/fields.hpp>           // for_each_field
#include <gx/sim/catalog/cluster_of.hpp>   // find_profile, machine_makers
#include <gx/sim/catalog/find_gpu.hpp>     // a100_40gb
#include <sim/support/known_machines.hpp>  // known_machines

namespace {

using gx::sim::ClusterSpec;
using gx::sim::MachineSpec;
using namespace gx::literals;

// ---- Cases worked by hand -----------------------------------------------------------
TEST(MachineJson, APlainMachineNeedsAFewFields) {
    const MachineSpec m = gx::sim::read_machine(
        R"({"name": "mine", "gpu": "A100-SXM4-40GB", "gpus": 4, "peer_gb_per_s": 200,
            "host_gb_per_s": 24, "nic_gbps": 100, "nics": 2, "host_memory_gb": 512,
            "price_usd_per_hour": 9.5})",
        "mine.json");
    EXPECT_EQ(m.gpu.name, gx::sim::a100_40gb().name);
    EXPECT_EQ(m.gpus, 4);
    EXPECT_EQ(m.peer_bandwidth, 200_GBps);
    EXPECT_EQ(m.nic_line_rate, 100_Gbps);
    EXPECT_EQ(m.host_memory, 512_GB);
    EXPECT_EQ(m.price.count, 9.5);
    EXPECT_FALSE(m.wiring.known);
}
TEST(MachineJson, AClusterNamesWhatIsKnownAndChangesWhatIsNot) {
    const ClusterSpec c = gx::sim::read_cluster(
        R"({"machine": "p3.16xlarge", "machines": 16,
            "fabric": {"kind": "leaf_spine", "machines_per_leaf": 8, "oversubscription": 4},
            "profile": {"like": "nccl-2.5+tcp-aws", "connections": 1, "connection_cap_gbps": 10}})",
        "c.json");
    EXPECT_EQ(c.name.view(), "p3.16xlarge");
    EXPECT_EQ(c.ranks(), 128);
    EXPECT_EQ(c.fabric, gx::sim::leaf_spine({.machines_per_leaf = 8, .oversubscription = 4}));
    EXPECT_EQ(c.connection_cap(), 10_Gbps);
    EXPECT_EQ(c.message_latency(gx::sim::LinkClass::nvlink), gx::Nanoseconds(5'700));
}
TEST(MachineJson, AGpuOfOnesOwnIsLikeAnother) {
    const MachineSpec m = gx::sim::read_machine(
        R"({"gpu": {"like": "V100-SXM2-16GB", "name": "V100 with 64 GB", "memory_gb": 64}})", "f");
    EXPECT_EQ(m.gpu.memory, 64_GB);
    EXPECT_EQ(m.gpu.fp32, gx::sim::v100().fp32);
}

// ---- Written and read back ----------------------------------------------------------
RC_GTEST_PROP(MachineJson, WhatIsWrittenIsReadBackAsTheSame, ()) {
    const int which = *rc::gen::inRange(0, static_cast<int>(gx::sim::machine_makers.size()));
    ClusterSpec c{
        .name = "c",
        .machine = gx::sim::machine_makers[std::size_t(which)](),
        .machines = *rc::gen::inRange(1, 16),
        .latency = gx::Nanoseconds(*rc::gen::inRange(0, 1'000'000)),
        .flow_cap = {1e6 * *rc::gen::inRange(0, 10'000)},
        .fabric = *rc::gen::element(gx::sim::star(), gx::sim::rails(), gx::sim::torus(4, 4),
                                    gx::sim::fat_tree(8)),
        .profile = gx::sim::find_profile(*rc::gen::element("exact", "ib-fdr", "nccl-2.10+tcp-aws")),
        .protocol = gx::sim::Protocol::ll};
    if (which % 2 == 0) c.machine.nic_line_rate = {1e6 * *rc::gen::inRange(1, 600)};
    RC_PRE(c.machine.nic_line_rate.count * 1.0 < 7.0e9 || c.machine.nics > 1);
    const std::string text = to_json(c);
    const ClusterSpec back = gx::sim::read_cluster(text, "c.json");
    RC_ASSERT(to_json(back) == text);
    RC_ASSERT(back.machine.gpu.name == c.machine.gpu.name);
    RC_ASSERT(back.machine.gpu.winograd == c.machine.gpu.winograd);
    RC_ASSERT(back.machine.gpu.efficiency_fp32.linear == c.machine.gpu.efficiency_fp32.linear);
    RC_ASSERT(back.machine.wiring.nvlinks == c.machine.wiring.nvlinks);
    RC_ASSERT(back.machine.wiring.rings == c.machine.wiring.rings || c.machine.gpus < 16);
    RC_ASSERT(back.latency == c.latency);
    RC_ASSERT(back.fabric == c.fabric);
    RC_ASSERT(back.protocol == c.protocol);
    RC_ASSERT(std::abs(back.nic_rate() / c.nic_rate() - 1) < 1e-8);
    for (int g = 0; g < c.machine.gpus; ++g) {
        const auto i = static_cast<std::size_t>(g);
        RC_ASSERT(back.machine.wiring.gpu[i].under == c.machine.wiring.gpu[i].under);
    }
}

// ---- No member is forgotten -----------------------------------------------------------
void change(gx::Label& x) { x = "changed"; }
void change(bool& x) { x = !x; }
void change(double& x) { x = x > 1 ? x / 2 : x + 0.5; }
void change(int& x) { ++x; }
void change(gx::Bytes& x) { x = x + 1_GB; }
void change(gx::Nanoseconds& x) { x += gx::Nanoseconds(1000); }
template <class Unit>
void change(gx::Quantity<Unit, double>& x) {
    x.count += 1e12;
}
template <std::size_t n>
void change(std::array<int, n>& x) {
    ++x.back();
}
template <class E>
    requires std::is_enum_v<E>
void change(E& x) {
    x = static_cast<E>(x == E{0});
}
/// Changes one member after the other, by Boost.PFR: each must change the text of the cluster.
template <class Part>
void expect_each_is_written(ClusterSpec& c, Part& part) {
    gx::for_each_field(part, [&](std::string_view name, auto& member) {
        if constexpr (requires { change(member); }) {
            const std::string before = to_json(c);
            const auto kept = member;
            change(member);
            EXPECT_NE(to_json(c), before) << name << " is not written";
            member = kept;
        }
    });
}
TEST(MachineJson, WritesEveryMember) {
    ClusterSpec c{.name = "c", .machine = gx::sim::find_machine("p3.16xlarge"), .machines = 2};
    expect_each_is_written(c, c);
    expect_each_is_written(c, c.machine);
    expect_each_is_written(c, c.machine.gpu);
    expect_each_is_written(c, c.machine.gpu.efficiency_fp32);
    expect_each_is_written(c, c.machine.gpu.efficiency_mixed);
    expect_each_is_written(c, c.machine.gpu.efficiency_tf32);
    expect_each_is_written(c, c.fabric);
    expect_each_is_written(c, c.profile.transport);
}

// ---- Bad input ----------------------------------------------------------------------
std::string refusal(const std::string& text) {
    try {
        (void)gx::sim::read_machine(text, "mine.json");
    } catch (const gx::Error& e) {
        return e.what();
    }
    return "";
}
TEST(MachineJson, NamesTheFieldAndTheUnit) {
    EXPECT_EQ(refusal(R"({"gpu": "K80", "nic": 10})"),
              "mine.json: line 1: field 'nic' has no unit: write 'nic_gbps'");
    EXPECT_EQ(refusal(R"({"gpu": "K80", "nic_gps": 10})"),
              "mine.json: line 1: unknown field 'nic_gps': did you mean 'nic_gbps'?");
    EXPECT_EQ(refusal(R"({"gpu": {"like": "K80", "memory": 12}})"),
              "mine.json: line 1: field 'gpu.memory' has no unit: write 'memory_gb'");
    EXPECT_EQ(refusal(R"({"gpus": 2})"), "mine.json: field 'gpu' is missing");
    EXPECT_EQ(refusal(R"({"gpu": "K80", "gpus": 2.5})"),
              "mine.json: line 1: field 'gpus' is 2.5: expected a whole number from 1 to 1024");
    EXPECT_EQ(
        refusal(R"({"gpu": "K80", "nic_gbps": "10"})"),
        "mine.json: line 1: field 'nic_gbps' is a string: expected 0 or 0.001 to 1000000 Gb/s");
    EXPECT_EQ(refusal(R"({"gpu": "K80", "nic_gbps": -1})"),
              "mine.json: line 1: field 'nic_gbps' is -1: expected 0 or 0.001 to 1000000 Gb/s");
    EXPECT_EQ(
        refusal(R"({"gpu": {"name": "x"}})"),
        "mine.json: line 1: field 'gpu' needs fp32_tflops, memory_gb and memory_gb_per_s above "
        "0, or 'like'");
    EXPECT_EQ(refusal(R"([1])"), "mine.json: the text is not an object");
    EXPECT_EQ(refusal(R"({"gpu": 80})"),
              "mine.json: line 1: field 'gpu' is neither a name nor an object");
}
TEST(MachineJson, RefusesEmptyNames) {
    EXPECT_EQ(refusal(R"({"name": "", "gpu": "K80"})"),
              "mine.json: line 1: field 'name' is empty: write a name, or leave the field out");
    EXPECT_EQ(refusal(R"({"gpu": {"like": "K80", "name": ""}})"),
              "mine.json: line 1: field 'gpu.name' is empty: write a name, or leave the field out");
}
TEST(MachineJson, RefusesNumbersThatNoHardwareHas) {
    EXPECT_EQ(refusal(R"({"gpu": {"like": "K80", "fp32_linear_share": 7}})"),
              "mine.json: line 1: field 'gpu.fp32_linear_share' is 7: expected 0.01 to 1");
    EXPECT_EQ(refusal(R"({"gpu": {"like": "K80", "mixed_memory_share": 0}})"),
              "mine.json: line 1: field 'gpu.mixed_memory_share' is 0: expected 0.01 to 1");
    EXPECT_EQ(refusal(R"({"gpu": {"like": "K80", "winograd_gain": 0}})"),
              "mine.json: line 1: field 'gpu.winograd_gain' is 0: expected 1 to 4");
    EXPECT_EQ(
        refusal(R"({"gpu": {"like": "K80", "memory_gb": 1e400}})"),
        "mine.json: line 1: field 'gpu.memory_gb' is 1e400: expected 0 or 0.001 to 1000000 GB");
    EXPECT_EQ(refusal(R"({"gpu": "K80", "gpus": 4})"),
              "mine.json: field 'peer_gb_per_s' is missing or 0: GPUs of one machine need a rate, "
              "or 'wiring'");
}
TEST(MachineJson, AFieldIsGivenOnce) {
    EXPECT_EQ(refusal(R"({"gpu": "K80", "gpus": 1, "gpu": "H100"})"),
              "mine.json: line 1: field 'gpu' is given twice in one object");
    EXPECT_EQ(refusal(R"({"name": "a", "gpu": {"like": "K80", "name": "b"}})"), "")
        << "of two objects each has its own";
}
TEST(MachineJson, NamesTheLineOfWhatIsNotJson) {
    EXPECT_EQ(refusal("{\n  \"gpu\": \"K80\",\n  \"gpus\": }").substr(0, 38),
              "mine.json: not JSON: line 3, column 11");
}
TEST(MachineJson, NamesWhatTheWiringLacks) {
    const std::string head = R"({"name": "m", "gpu": "K80", "gpus": 2, "nics": 0, "wiring": )";
    EXPECT_EQ(refusal(head + R"({"gpu_ports": [{"gb_per_s": 12}], "nic_ports": []}})"),
              "mine.json: line 1: field 'wiring.gpu_ports' describes 1 of 2 GPUs");
    EXPECT_EQ(
        refusal(head + R"({"gpu_ports": [{"rate": 12}], "nic_ports": []}})"),
        "mine.json: line 1: in 'wiring.gpu_ports[0]': unknown field 'rate': known are gb_per_s, "
        "under_switch, socket");
    EXPECT_EQ(refusal(head + R"({"switches": [{"gb_per_s": 12, "under_switch": 0}],
                  "gpu_ports": [{"gb_per_s": 12, "under_switch": 0}, {"gb_per_s": 12}],
                  "nic_ports": []}})"),
              "mine.json: machine 'm': cycle in a tree: the PCIe switches above PCIe "
              "switch 0 are under each other; one must be at a socket");
    EXPECT_EQ(
        refusal(head + R"({"gpu_ports": [{"gb_per_s": 12}, {"gb_per_s": 12}],
                  "nic_ports": [], "nvlinks": [[0, 1], [1]]}})"),
        "mine.json: line 2: field 'wiring.nvlinks[1]' is not an array of 2, one for each GPU");
}
TEST(MachineJson, AClusterNamesItsChoices) {
    const auto refused = [](const std::string& text) -> std::string {
        try {
            (void)gx::sim::read_cluster(text, "c.json");
        } catch (const gx::Error& e) {
            return e.what();
        }
        return "";
    };
    EXPECT_EQ(refused(R"({"machine": "p3.16xlage", "machines": 2})"),
              "c.json: line 1: field 'machine': unknown machine 'p3.16xlage': did you mean "
              "'p3.16xlarge'? (known are " +
                  testing_support::known_machines() + ")");
    EXPECT_EQ(refused(R"({"machine": "DGX-1V"})"), "c.json: field 'machines' is missing");
    EXPECT_EQ(refused(R"({"machine": "DGX-1V", "machines": 2, "profile": "nccl-2.11"})"),
              "c.json: line 1: field 'profile': unknown profile 'nccl-2.11': did you mean "
              "'nccl-2.10'?");
    EXPECT_EQ(refused(R"({"machine": "DGX-1V", "machines": 2, "fabric": {"kind": "tours"}})"),
              "c.json: line 1: field 'fabric.kind': unknown value 'tours': did you mean 'torus'?");
    EXPECT_EQ(refused(R"({"name": " ", "machine": "p3.2xlarge", "machines": 2})"),
              "c.json: line 1: field 'name' is empty: write a name, or leave the field out");
    EXPECT_EQ(refused(R"({"machine": {"name": "", "gpu": "K80"}, "machines": 2})"),
              "c.json: line 1: field 'machine.name' is empty: write a name, or leave the field "
              "out");
    EXPECT_EQ(refused(R"({"machine": 16, "machines": 2})"),
              "c.json: line 1: field 'machine' is neither a name nor an object");
    EXPECT_EQ(refused(R"({"machine": {"gpu": "K80", "nic_gbps": 10}, "machines": 2})"),
              "c.json: field 'machine.host_gb_per_s' is missing or 0: GPUs reach the NICs at this "
              "rate, or by 'wiring'");
    EXPECT_EQ(refused(R"({"machine": {"gpu": "K80", "host_gb_per_s": 12}, "machines": 2})"),
              "c.json: machine 'c.json': NICs of zero rate: set nic_line_rate, nic_gbps in a file, "
              "above 0");
    EXPECT_EQ(refused(R"({"machine": "DGX-1V", "machines": 2,
                          "profile": {"like": "nccl-2.10", "goodput": 3}})"),
              "c.json: line 2: field 'profile.goodput' is 3: expected 0.01 to 1");
    EXPECT_EQ(refused(R"({"machine": "DGX-1V", "machines": 900000})"),
              "c.json: line 1: field 'machines' is 900000: with 8 GPUs each that is above 1000000 "
              "ranks, the most there may be");
}

}  // namespace
