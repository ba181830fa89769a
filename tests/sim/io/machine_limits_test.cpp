// Machine files with numbers that no hardware has: refused by a sentence, or usable to the end.
#include <string>       // texts
#include <string_view>  // fields
#include <vector>       // numbers

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/collective/ring.hpp>             // collective::Ring
#include <gx/sim/io/machine_json.hpp>         // read_machine, read_cluster
#include <gx/sim/io/nccl_topology.hpp>        // machine_from_nccl_xml
#include <gx/sim/timing/all_reduce_time.hpp>  // all_reduce_time

namespace {

using gx::sim::ClusterSpec;
using gx::sim::MachineSpec;
using testing::HasSubstr;

std::string refusal(const std::string& text) {
    try {
        (void)gx::sim::read_machine(text, "ours.json");
    } catch (const gx::Error& e) {
        return e.what();
    }
    return "";
}
std::string machine(std::string_view field, std::string_view value) {
    return R"({"gpu": "V100-SXM2-16GB", "gpus": 2, "peer_gb_per_s": 20, "host_gb_per_s": 12,
               "nics": 1, "nic_gbps": 25, ")" +
           std::string(field) + "\":\n" + std::string(value) + "}";
}
std::string without(std::string text, std::string_view part) {
    return text.erase(text.find(part), part.size());
}

// ---- Numbers that stopped the planner, or never let it end ------------------------------------
TEST(MachineLimits, ARateHasARange) {
    for (const char* value : {"1e8", "1e14", "1e-9", "1e-11", "1e-12", "1e-300", "1e300", "-1"})
        EXPECT_THAT(refusal(without(machine("nic_gbps", value), R"("nic_gbps": 25, )")),
                    HasSubstr("ours.json: line 3: field 'nic_gbps' is " + std::string(value) +
                              ": expected 0 or 0.001 to 1000000 Gb/s"));
    for (const char* value : {"1e15", "1e-12"})
        EXPECT_THAT(refusal(without(machine("peer_gb_per_s", value), R"("peer_gb_per_s": 20, )")),
                    HasSubstr("field 'peer_gb_per_s' is " + std::string(value) +
                              ": expected 0 or 0.001 to 100000 GB/s"));
}
TEST(MachineLimits, ATimeHasARange) {
    EXPECT_THAT(refusal(machine("peer_latency_us", "1e13")),
                HasSubstr("line 3: field 'peer_latency_us' is 1e13: expected 0 to 1000000 us"));
}
TEST(MachineLimits, TheNumbersOfAGpuHaveRanges) {
    const auto gpu = [](std::string_view field, std::string_view value) {
        return refusal(R"({"gpu": {"like": "K80", ")" + std::string(field) +
                       "\": " + std::string(value) + "}}");
    };
    EXPECT_THAT(gpu("fp32_tflops", "1e-9"),
                HasSubstr("field 'gpu.fp32_tflops' is 1e-9: expected 0 or 0.1 to 1000000 TFLOPS"));
    EXPECT_THAT(gpu("memory_gb_per_s", "1e-12"), HasSubstr("field 'gpu.memory_gb_per_s' is 1e-12"));
    EXPECT_THAT(gpu("launch_us", "1e15"), HasSubstr("field 'gpu.launch_us' is 1e15"));
    EXPECT_THAT(gpu("fp32_linear_share", "1e-300"),
                HasSubstr("field 'gpu.fp32_linear_share' is 1e-300: expected 0.01 to 1"));
    EXPECT_THAT(gpu("winograd_gain", "0"), HasSubstr("is 0: expected 1 to 4"));
    EXPECT_THAT(gpu("memory_gb", "1e400"), HasSubstr("'gpu.memory_gb' is 1e400: expected "));
}
TEST(MachineLimits, ANameIsTextThatCanBePrinted) {
    EXPECT_THAT(refusal(machine("name", R"("a\u001b[31mb")")),
                HasSubstr("line 3: field 'name' holds a control character"));
}
TEST(MachineLimits, AFabricIsNoLargerThanMemory) {
    const auto cluster = [](const std::string& fabric, int machines = 2) -> std::string {
        try {
            (void)gx::sim::read_cluster(R"({"machine": "DGX-1V", "machines": )" +
                                            std::to_string(machines) + R"(, "fabric": {)" + fabric +
                                            "}}",
                                        "c.json");
        } catch (const gx::Error& e) {
            return e.what();
        }
        return "";
    };
    for (const char* fabric :
         {R"("kind": "torus", "extent_x": 65536, "extent_y": 65536)",
          R"("kind": "dragonfly", "groups": 1000000, "routers": 1, "global_links": 1000000)",
          R"("kind": "dragonfly", "groups": 2, "routers": 65536)",
          R"("kind": "fat_tree", "ports": 256)"})
        EXPECT_THAT(cluster(fabric), HasSubstr("c.json: line 1: field 'fabric' has ")) << fabric;
    EXPECT_THAT(cluster(R"("kind": "leaf_spine", "spines": 1000000, "oversubscription": 1000)"),
                HasSubstr("'fabric' leaves 50 bytes per second to an uplink: expected 1000 or "));
    EXPECT_THAT(cluster(R"("kind": "leaf_spine", "spines": 1000000, "oversubscription": 1000)", 1),
                HasSubstr("to an uplink"))
        << "a plan takes several of it";
    EXPECT_THAT(cluster(R"("kind": "leaf_spine", "oversubscription": 1e300)"),
                HasSubstr("field 'fabric.oversubscription' is 1e300: expected 0.01 to 1000"));
}
TEST(MachineLimits, AnAttributeOfATopologyHasARange) {
    const auto topology = [](std::string_view width, std::string_view speed) -> std::string {
        try {
            (void)gx::sim::machine_from_nccl_xml(
                "<system><cpu arch=\"x86_64\"><pci busid=\"1\" link_width=\"" + std::string(width) +
                    "\"><gpu dev=\"0\" sm=\"70\"/></pci>\n<nic><net speed=\"" + std::string(speed) +
                    "\"/></nic></cpu></system>",
                "x");
        } catch (const gx::Error& e) {
            return e.what();
        }
        return "";
    };
    EXPECT_EQ(topology("16", "40000"), "");
    EXPECT_THAT(topology("1e15", "40000"),
                HasSubstr("line 1: <pci>: attribute 'link_width' is '1e15'"));
    EXPECT_THAT(topology("16", "1e15"), HasSubstr("line 2: <net>: attribute 'speed' is '1e15'"));
    EXPECT_THAT(topology("16", "1e-300"), HasSubstr("attribute 'speed' is '1e-300'"));
    EXPECT_THAT(topology("inf", "1"), HasSubstr("attribute 'link_width' is 'inf'"));
}

// ---- A property: what is read can be used -------------------------------------------------
/// Numbers as a file may spell them: usual, extreme, negative, no number at all.
std::string any_number() {
    static const std::vector<std::string> odd{"0",
                                              "-0.0",
                                              "-1",
                                              "1e300",
                                              "1e-300",
                                              "-1e300",
                                              "1e308",
                                              "5e-324",
                                              "1e400",
                                              "NaN",
                                              "inf",
                                              "18446744073709551616",
                                              "9223372036854775807",
                                              "2147483648",
                                              "-9223372036854775809",
                                              "1e15",
                                              "1e-12",
                                              "0.5",
                                              "1e6",
                                              "1e-3",
                                              "1000000",
                                              "16",
                                              "1",
                                              "2"};
    switch (*rc::gen::inRange(0, 3)) {
        case 0: return odd[*rc::gen::inRange<std::size_t>(0, odd.size())];
        case 1: return std::to_string(*rc::gen::inRange(0, 2000));
        default:
            return std::to_string(*rc::gen::inRange(1, 10)) + "e" +
                   std::to_string(*rc::gen::inRange(-20, 20));
    }
}
/// Builds two machines and times a ring and a kernel on them. A gx::Error is an answer as well.
void use(const MachineSpec& m) {
    ClusterSpec c{.name = "c", .machine = m, .machines = 2};
    try {
        check(c);
    } catch (const gx::Error&) {
        c.machines = 1;
    }
    if (c.machine.gpus > 64) return;  // as much work, and more of it
    try {
        check(c);
        const auto t =
            gx::sim::all_reduce_time(gx::collective::Ring(c.ranks()), c, gx::Bytes{1'000'000'000});
        RC_ASSERT(t.time.count() >= 0);
        RC_ASSERT(t.events < 1'000'000);
        RC_ASSERT(c.ranks() == 1 || t.time.count() > 0);
    } catch (const gx::Error&) {
    }
    const double image = 24.3e9;  // operations of one image
    const double rate = m.gpu.fp32.count * m.gpu.efficiency_fp32.convolution;
    RC_ASSERT(image * 1.28e6 / rate < 9e9);  // seconds that an epoch's clock can hold
}
RC_GTEST_PROP(MachineLimits, AMachineThatIsReadCanBeTimed, ()) {
    static const std::vector<std::string> fields{"gpus",
                                                 "peer_gb_per_s",
                                                 "peer_flow_cap_gb_per_s",
                                                 "peer_latency_us",
                                                 "host_gb_per_s",
                                                 "nics",
                                                 "nic_gbps",
                                                 "host_memory_gb",
                                                 "price_usd_per_hour",
                                                 "spot_usd_per_hour",
                                                 "purchase_usd"};
    static const std::vector<std::string> of_gpu{
        "fp32_tflops",  "tensor_fp16_tflops",     "tf32_tflops",       "fp16_tflops",
        "memory_gb",    "memory_gb_per_s",        "launch_us",         "multiprocessors",
        "copy_engines", "fp32_convolution_share", "fp32_linear_share", "fp32_memory_share",
        "winograd_gain"};
    std::string text = R"({"gpu": {"like": "K80")";
    for (const std::string& f : of_gpu)
        if (*rc::gen::inRange(0, 12) == 0) text += ", \"" + f + "\": " + any_number();
    text += "}";
    const std::vector<std::string> good{"2", "20", "0", "5", "12", "1", "25", "0", "0", "0", "0"};
    for (std::size_t i = 0; i < fields.size(); ++i)
        text += ", \"" + fields[i] + "\": " + (*rc::gen::inRange(0, 12) ? good[i] : any_number());
    try {
        use(gx::sim::read_machine(text + "}", "ours.json"));
    } catch (const gx::Error& e) {
        RC_ASSERT(std::string_view(e.what()).starts_with("ours.json: "));
    }
}
RC_GTEST_PROP(MachineLimits, AMachineOfWiresThatIsReadCanBeTimed, ()) {
    const auto number = [](const char* good) {
        return *rc::gen::inRange(0, 12) ? std::string(good) : any_number();
    };
    const std::string text =
        R"({"gpu": "K80", "gpus": 2, "nics": 1, "nic_gbps": )" + number("25") +
        R"(, "wiring": {"nvlink_gb_per_s": )" + number("20") + R"(, "sockets": )" + number("2") +
        R"(, "nvswitch_links": )" + number("0") + R"(, "socket_link_gb_per_s": )" + number("10") +
        R"(, "peer_penalty": )" + number("1.2") + R"(, "switches": [{"gb_per_s": )" + number("12") +
        R"(, "socket": )" + number("0") + R"(}], "gpu_ports": [{"gb_per_s": )" + number("12") +
        R"(, "under_switch": )" + number("0") + R"(}, {"gb_per_s": )" + number("12") +
        R"(, "socket": )" + number("1") + R"(}], "nic_ports": [{"gb_per_s": )" + number("12") +
        R"(, "under_switch": )" + number("0") + R"(}], "nvlinks": [[0, )" + number("1") + "], [" +
        number("1") + ", 0]]}}";
    try {
        use(gx::sim::read_machine(text, "ours.json"));
    } catch (const gx::Error& e) {
        RC_ASSERT(std::string_view(e.what()).starts_with("ours.json: "));
    }
}
RC_GTEST_PROP(MachineLimits, ATopologyThatIsReadCanBeTimed, ()) {
    const auto number = [](const char* good) {
        return "=\"" + (*rc::gen::inRange(0, 12) ? std::string(good) : any_number()) + "\"";
    };
    std::string text =
        "<system><cpu arch=\"x86_64\" vendor=\"GenuineIntel\" modelid" + number("79") + ">";
    for (const char* dev : {"0", "1"})
        text += "<pci busid=\"" + std::string(dev) + "\" link_speed" + number("8") + " link_width" +
                number("16") + "><gpu dev" + number(dev) + " sm" + number("70") +
                "><nvlink target=\"" + (dev[0] == '0' ? "1" : "0") + "\" count" + number("2") +
                "/><nvlink target=\"9\" tclass=\"0x0680\" count" + number("0") + "/></gpu></pci>";
    text += "<nic><net speed" + number("25000") + "/></nic></cpu></system>";
    try {
        use(gx::sim::machine_from_nccl_xml(text, "x"));
    } catch (const gx::Error& e) {
        const std::string_view why = e.what();
        RC_ASSERT(why.starts_with("line ") || why.starts_with("machine 'x': "));
    }
}

}  // namespace
