#include <gx/sim/io/nccl_topology.hpp>  // first, so the header is seen to stand alone

#include <string>  // sentences

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/sim/topology/topology.hpp>  // routes

namespace {

using gx::sim::machine_from_nccl_xml;
using gx::sim::MachineSpec;
using namespace gx::literals;

/// Two sockets; two V100 and a NIC under a PCIe switch of each; a slow NIC for logging in.
std::string four_v100() {
    return R"(<?xml version="1.0"?>
<system version="1">
  <cpu numaid="0" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="79">
    <pci busid="0000:10:00.0" class="0x060400" link_speed="8 GT/s" link_width="16">
      <pci busid="0000:11:00.0" class="0x030200" link_speed="8 GT/s" link_width="16">
        <gpu dev="0" sm="70" rank="0" gdr="1">
          <nvlink target="0000:12:00.0" count="2" tclass="0x030200"/>
          <nvlink target="0000:21:00.0" count="1" tclass="0x030200"/>
          <nvlink target="0000:22:00.0" count="1" tclass="0x030200"/>
        </gpu>
      </pci>
      <pci busid="0000:12:00.0" class="0x030200" link_speed="8 GT/s" link_width="16">
        <gpu dev="1" sm="70" rank="1" gdr="1">
          <nvlink target="0000:11:00.0" count="2" tclass="0x030200"/>
          <nvlink target="0000:22:00.0" count="2" tclass="0x030200"/>
        </gpu>
      </pci>
      <pci busid="0000:13:00.0" class="0x020000" link_speed="8 GT/s" link_width="8">
        <nic>
          <net name="mlx5_0" dev="0" speed="40000" port="1" gdr="1"/>
        </nic>
      </pci>
    </pci>
    <nic>
      <net name="eth0" dev="2" speed="1000"/>
    </nic>
  </cpu>
  <cpu numaid="1" affinity="ff00" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="79">
    <!-- the second socket -->
    <pci busid="0000:20:00.0" class="0x060400" link_speed="8 GT/s" link_width="16">
      <pci busid="0000:21:00.0" class="0x030200" link_speed="8 GT/s" link_width="16">
        <gpu dev="2" sm="70" rank="2" gdr="1">
          <nvlink target="0000:11:00.0" count="1" tclass="0x030200"/>
          <nvlink target="0000:22:00.0" count="2" tclass="0x030200"/>
        </gpu>
      </pci>
      <pci busid="0000:22:00.0" class="0x030200" link_speed="8 GT/s" link_width="16">
        <gpu dev="3" sm="70" rank="3" gdr="1">
          <nvlink target="0000:11:00.0" count="1" tclass="0x030200"/>
          <nvlink target="0000:12:00.0" count="2" tclass="0x030200"/>
          <nvlink target="0000:21:00.0" count="2" tclass="0x030200"/>
        </gpu>
      </pci>
      <pci busid="0000:23:00.0" class="0x020000" link_speed="8 GT/s" link_width="8">
        <nic>
          <net name="mlx5_1" dev="1" speed="40000" port="1" gdr="1"/>
        </nic>
      </pci>
    </pci>
  </cpu>
</system>
)";
}
std::string changed(std::string text, std::string_view from, std::string_view to) {
    const auto at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    return text.replace(at, from.size(), to);
}

// ---- A case worked by hand ----------------------------------------------------------
TEST(NcclXml, ReadsSocketsSwitchesLinksAndNics) {
    const MachineSpec m = machine_from_nccl_xml(four_v100(), "four");
    EXPECT_EQ(m.gpus, 4);
    EXPECT_EQ(m.gpu.name, gx::sim::v100().name);
    EXPECT_EQ(m.nics, 2) << "the 1 Gb/s NIC is left out";
    EXPECT_EQ(m.nic_line_rate, 40_Gbps);
    EXPECT_EQ(m.wiring.sockets, 2);
    EXPECT_EQ(m.wiring.switches, 2);
    EXPECT_EQ(m.wiring.socket_link, 6_GBps) << "model 79 is a Broadwell";
    EXPECT_DOUBLE_EQ(m.wiring.peer_penalty, 1.2);
    EXPECT_EQ(m.wiring.gpu[0].rate, 12_GBps);
    EXPECT_EQ(m.wiring.nic[1].rate, 6_GBps);
    EXPECT_EQ(m.wiring.nic[1].under, 1);
    // dev 0 - 1 - 3 - 2 - 0 is the ring of NVLinks, so ranks 2 and 3 are dev 3 and 2.
    EXPECT_EQ(m.wiring.nvlinks[0], (decltype(m.wiring.nvlinks)::value_type{0, 2, 1, 1}));
    EXPECT_EQ(m.wiring.nvlinks[1][2], 2);
    EXPECT_EQ(m.wiring.nvlinks[2][3], 2);
    EXPECT_EQ(m.wiring.nvlinks[1][3], 0);
}
TEST(NcclXml, NvswitchesAreNoGpus) {
    std::string text =
        "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" "
        "vendor=\"AuthenticAMD\">";
    for (int g = 0; g < 8; ++g)
        text += "<pci busid=\"0000:0" + std::to_string(g) +
                ":00.0\" device=\"0x20b0\" link_speed=\"16 GT/s\" link_width=\"16\"><gpu dev=\"" +
                std::to_string(g) +
                "\" sm=\"80\"><nvlink target=\"0000:c4:00.0\" count=\"7\" "
                "tclass=\"0x068000\"/><nvlink target=\"0000:c5:00.0\" count=\"5\" "
                "tclass=\"0x068000\"/></gpu></pci>";
    const MachineSpec m = machine_from_nccl_xml(text + "</cpu></system>", "a100");
    EXPECT_EQ(m.wiring.nvswitch_links, 12);
    EXPECT_EQ(m.gpu.name, gx::sim::a100_40gb().name);
    EXPECT_EQ(m.wiring.gpu[7].rate, 24_GBps);
    EXPECT_EQ(m.nics, 0);
    EXPECT_DOUBLE_EQ(m.wiring.peer_penalty, 1);
}

// ---- Bad input ----------------------------------------------------------------------
std::string refusal(const std::string& text) {
    try {
        (void)machine_from_nccl_xml(text, "four");
    } catch (const gx::Error& e) {
        return e.what();
    }
    return "";
}
TEST(NcclXml, NamesLineElementAndAttribute) {
    const std::string good = four_v100();
    EXPECT_EQ(refusal(changed(good, "dev=\"1\" sm", "sm")),
              "line 13: <gpu>: attribute 'dev' is missing");
    EXPECT_EQ(refusal(changed(good, "count=\"2\"", "count=\"two\"")),
              "line 7: <nvlink>: attribute 'count' is 'two': expected a number from 0 to 255");
    EXPECT_EQ(refusal(changed(good, "target=\"0000:22:00.0\"", "target=\"0000:99:00.0\"")),
              "line 9: <nvlink>: attribute 'target' is '0000:99:00.0': no GPU here has that busid, "
              "and tclass does not say NVSwitch (0x068000)");
    EXPECT_EQ(refusal(changed(good, "sm=\"70\"", "sm=\"75\"")),
              "line 6: <gpu>: attribute 'sm' is '75': known are 37, 60, 61, 70, 80 and 90; change "
              "it to the nearest");
    EXPECT_EQ(refusal(changed(good, "dev=\"1\" sm", "dev=\"0\" sm")),
              "line 13: <gpu>: attribute 'dev' or the busid is that of the GPU of line 6");
    EXPECT_EQ(refusal(changed(good, "speed=\"1000\"", "speed=\"0\"")),
              "line 25: <net>: attribute 'speed' is '0': expected a number from 1 to 1000000000");
    EXPECT_EQ(refusal(changed(good, "count=\"1\"", "count=\"3\"")),
              "machine 'four': GPU 0 has 3 NVLinks to GPU 2, which has 1 back: a link has two "
              "ends");
    EXPECT_EQ(refusal(changed(good, "count=\"2\"", "count=\"1e9\"")),
              "line 7: <nvlink>: attribute 'count' is '1e9': expected a number from 0 to 255");
    EXPECT_EQ(refusal("<graph/>"), "line 1: <graph>: the root of a topology is <system>");
    EXPECT_EQ(refusal("<system/>"),
              "line 1: <system>: no <gpu> inside <cpu> and <pci>: is this a topology?");
}
TEST(NcclXml, NamesTheLineOfWhatIsNotXml) {
    const std::string good = four_v100();
    EXPECT_EQ(refusal(changed(good, "</gpu>", "</cpu>")),
              "line 10: not XML: Start-end tags mismatch at '</cpu>'");
    EXPECT_EQ(refusal(changed(good, "dev=\"0\"", "dev=0")),
              "line 6: not XML: Error parsing element attribute at '<gpu dev=0 sm=\"70\" "
              "rank=\"0\" gdr=\"1\">'");
    EXPECT_EQ(refusal(changed(good, "-->", "--")),
              "line 29: not XML: Error parsing comment at '<!-- the second socket --\n'");
    EXPECT_EQ(refusal(changed(good, "</system>", "")),
              "line 51: not XML: an element has no end tag");
    EXPECT_EQ(refusal(good + "<system/>"), "line 52: not XML: a second element follows the first");
    EXPECT_EQ(refusal(changed(good, "affinity=\"ff\"", "numaid=\"1\"")),
              "line 3: not XML: attribute 'numaid' is given twice");
    EXPECT_EQ(refusal(""), "line 1: not XML: there is no element");
}
TEST(NcclXml, RefusesWhatXmlDoesNotHave) {
    const std::string good = four_v100();
    EXPECT_EQ(refusal(changed(good, "affinity=\"ff\"", "affinity=\"&x;\"")),
              "line 3: not XML: '&' in attribute 'affinity' begins no entity: write '&amp;'");
    EXPECT_EQ(refusal(changed(good, "affinity=\"ff\"", "affinity=\"<\"")),
              "line 3: not XML: '<' in attribute 'affinity': write '&lt;'");
    EXPECT_EQ(refusal(changed(good, "affinity=\"ff\"", "affinity=\"&lt;&amp;\"")), "");
    EXPECT_EQ(refusal(changed(good, "affinity", std::string_view("\0", 1))),
              "line 3: not XML: a byte of 0");
    const std::string bomb = "<!DOCTYPE s [<!ENTITY a \"x\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;\">]>\n";
    EXPECT_EQ(refusal(bomb + "<system arch=\"&b;\"/>"),
              "line 1: not XML: a document type is not read: remove <!DOCTYPE ...>");
    std::string deep, end;
    for (int i = 0; i < 300'000; ++i) deep += "<pci>", end += "</pci>";
    EXPECT_EQ(refusal("<system><cpu>" + deep + end + "</cpu></system>"),
              "line 1: not XML: it is nested too deeply");
}
RC_GTEST_PROP(NcclXml, ATextThatIsCutOrChangedIsReadOrRefusedWithALine, ()) {
    std::string text = four_v100();
    const auto at = static_cast<std::size_t>(*rc::gen::inRange(0, static_cast<int>(text.size())));
    if (*rc::gen::arbitrary<bool>()) text.resize(at);
    else text[at] = *rc::gen::arbitrary<char>();
    try {
        (void)machine_from_nccl_xml(text, "four");
    } catch (const gx::Error& e) {
        const std::string_view why = e.what();
        RC_ASSERT(why.starts_with("line ") || why.starts_with("machine 'four': "));
    }
}

}  // namespace
