// machine_from_nccl_xml: a machine from the topology that NCCL dumps (NCCL_TOPO_DUMP_FILE).
#pragma once

#include <algorithm>    // sort
#include <array>        // tables
#include <string>       // bus ids
#include <string_view>  // the text
#include <utility>      // pair
#include <vector>       // devices

#include <gx/sim/gpus.hpp>           // v100, ...
#include <gx/sim/machine_check.hpp>  // check
#include <gx/sim/rings.hpp>          // in_ring_order
#include <gx/sim/wiring.hpp>         // rates
#include <gx/sim/xml.hpp>            // read_xml

namespace gx::sim {

namespace detail::nccl_xml {

struct Gpu {
    int dev = 0, sm = 0;
    std::string bus{}, device{};
    PciePort port{};
    const XmlElement* element = nullptr;
};
struct Nic {
    double mbps = 0;
    PciePort port{};
};

/// GB/s = lanes x rate of one in 100 Mb/s / 80. Source: NVIDIA/nccl src/graph/topo.cc.
[[nodiscard]] inline BytesPerSecond pcie_rate(const XmlElement& pci) {
    constexpr std::array<std::pair<double, double>, 6> generations{
        {{2.5, 15}, {5, 30}, {8, 60}, {16, 120}, {32, 240}, {64, 480}}};
    double lane = 60;  // what NCCL takes for an unknown speed
    if (const std::string* speed = pci.find("link_speed"); speed != nullptr && !speed->empty()) {
        const double gts = pci.number("link_speed");
        for (const auto& [written, rate] : generations)
            if (written == gts) lane = rate;
    }
    double lanes = pci.find("link_width") != nullptr ? pci.number("link_width") : 0;
    if (lanes == 0) lanes = 16;
    return {lanes * lane / 80 * 1e9};
}

/// Source: PCI ids of NVIDIA's boards; else compute capability, the plain form of a family.
[[nodiscard]] inline GpuSpec gpu_of(const Gpu& g) {
    using Id = std::pair<std::string_view, GpuSpec (*)()>;
    constexpr std::array<Id, 12> ids{{{"0x102d", k80},
                                      {"0x15f9", p100},
                                      {"0x15f8", p100_pcie},
                                      {"0x1db1", v100},
                                      {"0x1db5", v100_32gb},
                                      {"0x1db4", v100_pcie},
                                      {"0x1db8", v100_sxm3},
                                      {"0x20b0", a100_40gb},
                                      {"0x20b2", a100_80gb},
                                      {"0x20f1", a100_pcie_40gb},
                                      {"0x2330", h100},
                                      {"0x2335", h200}}};
    for (const auto& [id, make] : ids)
        if (g.device == id) return make();
    switch (g.sm) {
        case 37: return k80();
        case 60: return p100();
        case 61: return p40();
        case 70: return v100();
        case 80: return a100_40gb();
        case 90: return h100();
        default:
            g.element->wrong("attribute 'sm' is '" + std::to_string(g.sm) +
                             "': known are 37, 60, 61, 70, 80 and 90; change it to the nearest");
    }
}
/// Source: NVIDIA/nccl 2.30 src/graph/topo.h.
[[nodiscard]] constexpr BytesPerSecond nvlink_rate(int sm) {
    return sm >= 90 ? wiring::nvlink_h100 : sm >= 70 ? wiring::nvlink_v100 : wiring::nvlink_p100;
}
/// Source: as above; an Intel host's model number: 85 Skylake, 143 Sapphire and 207 Emerald Rapids.
constexpr void set_host(Wiring& w, std::string_view arch, std::string_view vendor, double model) {
    using namespace gx::literals;
    if (arch == "ppc64") w.socket_link = 32_GBps;
    else if (arch == "arm64") w.socket_link = 6_GBps;
    else if (vendor == "AuthenticAMD") w.socket_link = wiring::amd_zen;
    else if (model >= 207) w.socket_link = 40_GBps;
    else if (model >= 143) w.socket_link = wiring::upi_sapphire_rapids;
    else w.socket_link = model >= 85 ? wiring::upi_skylake : wiring::qpi_broadwell;
    w.peer_penalty = vendor == "GenuineIntel" ? wiring::intel_peer_penalty : 1;
}

class Import {
public:
    explicit Import(Label name) { m_.name = name; }

    MachineSpec all(const XmlElement& system) {
        if (system.name != "system") system.wrong("the root of a topology is <system>");
        Wiring& w = m_.wiring;
        w.known = true;
        w.sockets = 0;
        for (const XmlElement& cpu : system.children) {
            if (cpu.name != "cpu") continue;
            if (w.sockets == Wiring::most_sockets) cpu.wrong("at most 8 <cpu> are described");
            const auto text = [&](std::string_view a) {
                return cpu.find(a) != nullptr ? std::string_view(*cpu.find(a)) : "";
            };
            const double model = cpu.find("modelid") != nullptr ? cpu.number("modelid") : 0;
            set_host(w, text("arch"), text("vendor"), model);
            walk(cpu, {.rate = {}, .under = -1, .socket = w.sockets++});
        }
        if (gpus_.empty()) system.wrong("no <gpu> inside <cpu> and <pci>: is this a topology?");
        place_gpus();
        place_nics();
        gx::sim::check(m_);
        return in_ring_order(m_);
    }

private:
    /// What is below an element; `at` is where its children are plugged in.
    void walk(const XmlElement& e, const PciePort& at) {
        for (const XmlElement& child : e.children) {
            if (child.name == "pci") pci(child, at);
            else if (child.name == "nic") nic(child, {.rate = wiring::pcie3_x16, .under = at.under,
                                                      .socket = at.socket});
            else if (child.name == "gpu") child.wrong("a <gpu> is inside a <pci>");
        }
    }
    void pci(const XmlElement& e, PciePort at) {
        at.rate = pcie_rate(e);
        bool device = false, below = false;
        for (const XmlElement& child : e.children) {
            if (child.name == "gpu") gpu(e, child, at), device = true;
            else if (child.name == "nic") nic(child, at), device = true;
            below = below || child.name == "pci";
        }
        if (device || !below) return;
        Wiring& w = m_.wiring;
        if (w.switches == Wiring::most_switches) e.wrong("at most 16 PCIe switches are described");
        w.pcie_switch[static_cast<std::size_t>(w.switches)] = at;
        const PciePort inside{.rate = {}, .under = w.switches++, .socket = at.socket};
        walk(e, inside);
    }
    void gpu(const XmlElement& pci, const XmlElement& e, const PciePort& at) {
        Gpu g{.dev = e.integer("dev", 1023), .sm = e.integer("sm", 999),
              .bus = pci.at("busid"), .port = at, .element = &e};
        if (const std::string* device = pci.find("device")) g.device = *device;
        for (const Gpu& other : gpus_)
            if (other.dev == g.dev || other.bus == g.bus)
                e.wrong("attribute 'dev' or the busid is that of the GPU of line " +
                        std::to_string(other.element->line));
        if (gpus_.size() == Wiring::most_gpus) e.wrong("at most 16 GPUs are described");
        gpus_.push_back(g);
    }
    void nic(const XmlElement& e, const PciePort& at) {
        for (const XmlElement& net : e.children) {
            if (net.name != "net") continue;
            const double mbps = net.find("speed") != nullptr ? net.number("speed") : 10'000;
            if (!(mbps > 0)) net.wrong("attribute 'speed' is 0: a link needs a rate above 0");
            nics_.push_back({mbps, at});
        }
    }
    void place_gpus() {
        std::sort(gpus_.begin(), gpus_.end(),
                  [](const Gpu& a, const Gpu& b) { return a.dev < b.dev; });
        m_.gpus = static_cast<int>(gpus_.size());
        m_.gpu = gpu_of(gpus_[0]);
        m_.wiring.nvlink = nvlink_rate(gpus_[0].sm);
        for (std::size_t i = 0; i < gpus_.size(); ++i) {
            m_.wiring.gpu[i] = gpus_[i].port;
            if (gpus_[i].sm != gpus_[0].sm)
                gpus_[i].element->wrong("GPUs of one machine are alike: 'sm' differs from line " +
                                        std::to_string(gpus_[0].element->line));
            int to_switch = 0;
            for (const XmlElement& link : gpus_[i].element->children)
                if (link.name == "nvlink") nvlink(i, link, to_switch);
            m_.wiring.nvswitch_links = std::max(m_.wiring.nvswitch_links, to_switch);
        }
    }
    void nvlink(std::size_t from, const XmlElement& e, int& to_switch) {
        const int count = e.integer("count", 255);
        const std::string& target = e.at("target");
        const std::string* tclass = e.find("tclass");
        for (std::size_t to = 0; to < gpus_.size(); ++to)
            if (gpus_[to].bus == target) {
                m_.wiring.nvlinks[from][to] = static_cast<unsigned char>(count);
                return;
            }
        if (tclass == nullptr || !tclass->starts_with("0x0680"))
            e.wrong("attribute 'target' is '" + target +
                    "': no GPU here has that busid, and tclass does not say NVSwitch (0x068000)");
        to_switch += count;
    }
    /// NICs of the highest rate; slower ones are for other purposes.
    void place_nics() {
        double most = 0;
        for (const Nic& n : nics_) most = std::max(most, n.mbps);
        m_.nic_line_rate = {most * 1e6 / 8};
        m_.nics = 0;
        for (const Nic& n : nics_) {
            if (n.mbps != most || m_.nics == Wiring::most_nics) continue;
            m_.wiring.nic[static_cast<std::size_t>(m_.nics++)] = n.port;
        }
    }

    MachineSpec m_{};
    std::vector<Gpu> gpus_{};
    std::vector<Nic> nics_{};
};

}  // namespace detail::nccl_xml

/// A machine from NCCL's topology XML. Ranks follow the first ring of NVLinks where there is one,
/// else the GPUs' `dev`. Rates are NCCL 2.30's for what the file says; memory of the host and
/// prices are unknown. The GPU is known by its PCI id, else by `sm`: set `gpu` to correct it.
/// NICs slower than the fastest are left out.
/// Errors: gx::Error with line, element and attribute.
/// Source: NVIDIA/nccl src/graph/topo.cc and topo.h.
[[nodiscard]] inline MachineSpec machine_from_nccl_xml(std::string_view text, Label name) {
    return detail::nccl_xml::Import(name).all(read_xml(text));
}

}  // namespace gx::sim
