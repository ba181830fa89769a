// machine_from_nccl_xml: a machine from the topology that NCCL dumps (NCCL_TOPO_DUMP_FILE).
#pragma once

#include <algorithm>     // sort
#include <array>         // tables
#include <charconv>      // from_chars
#include <cmath>         // floor
#include <string>        // bus ids
#include <string_view>   // the text
#include <system_error>  // errc
#include <utility>       // pair
#include <vector>        // devices

#include <fmt/core.h>   // sentences
#include <pugixml.hpp>  // xml_document: link gx::machine_files

#include <gx/core/error.hpp>                 // Error
#include <gx/sim/catalog/gpus.hpp>           // v100, ...
#include <gx/sim/hardware/validate.hpp>      // check
#include <gx/sim/hardware/nvlink_rings.hpp>  // in_ring_order
#include <gx/sim/hardware/wiring.hpp>        // rates

namespace gx::sim {

namespace detail::nccl_xml {

/// An element of a text; attributes are read with their ranges.
/// Errors: at(), number() and integer() throw gx::Error with line, element, attribute and range.
class Element {
public:
    Element(pugi::xml_node node, std::string_view text) : node_(node), text_(text) {}

    [[nodiscard]] std::string_view name() const { return node_.name(); }
    [[nodiscard]] std::vector<Element> children() const {
        std::vector<Element> out;
        for (const pugi::xml_node child : node_.children())
            if (child.type() == pugi::node_element) out.emplace_back(child, text_);
        return out;
    }
    [[nodiscard]] bool has(const char* attribute) const { return !!node_.attribute(attribute); }
    /// Returns the text of an attribute, empty if there is none.
    [[nodiscard]] std::string text(const char* attribute) const {
        return node_.attribute(attribute).value();
    }
    [[nodiscard]] std::string at(const char* attribute) const {
        if (!has(attribute)) wrong("attribute '" + std::string(attribute) + "' is missing");
        return text(attribute);
    }
    /// Returns the number that an attribute begins with, as in "16 GT/s".
    [[nodiscard]] double number(const char* attribute, double least, double most) const {
        const std::string value = at(attribute);
        double x = -1;
        const auto read = std::from_chars(value.data(), value.data() + value.size(), x);
        if (read.ec != std::errc{} || !(x >= least && x <= most))
            wrong(fmt::format("attribute '{}' is '{}': expected a number from {} to {}", attribute,
                              value, least, most));
        return x;
    }
    [[nodiscard]] int integer(const char* attribute, int most) const {
        const double x = number(attribute, 0, most);
        if (x != std::floor(x))
            wrong(fmt::format("attribute '{}' is '{}': expected a whole number", attribute,
                              at(attribute)));
        return static_cast<int>(x);
    }
    [[nodiscard]] long line() const {
        const auto begin = text_.begin();
        return 1 + std::count(begin, begin + node_.offset_debug(), '\n');
    }
    [[noreturn]] void wrong(const std::string& why) const {
        throw Error(fmt::format("line {}: <{}>: {}", line(), name(), why));
    }

private:
    friend class Document;
    pugi::xml_node node_;
    std::string_view text_;
};

/// A parsed text. pugixml takes more than XML has; what it takes and XML does not is refused here.
class Document {
public:
    explicit Document(std::string_view text) : text_(text) {
        if (const auto nul = text.find('\0'); nul != text.npos) wrong(nul, "a byte of 0");
        const auto result =
            document_.load_buffer(text.data(), text.size(),
                                  pugi::parse_minimal | pugi::parse_doctype, pugi::encoding_utf8);
        if (!result) refuse(result);
        for (const pugi::xml_node node : document_.children()) {
            if (node.type() == pugi::node_doctype)
                wrong(at(node), "a document type is not read: remove <!DOCTYPE ...>");
            if (node.type() == pugi::node_element && node != root())
                wrong(at(node), "a second element follows the first");
        }
        check(root(), 0);
    }
    /// The root; it and its children live as long as the document and the text.
    [[nodiscard]] Element element() const { return {root(), text_}; }

private:
    static constexpr int depth_max = 100;

    [[nodiscard]] pugi::xml_node root() const { return document_.document_element(); }
    static std::size_t at(pugi::xml_node node) {
        return static_cast<std::size_t>(node.offset_debug());
    }
    [[noreturn]] void wrong(std::size_t at, const std::string& why) const {
        const auto before = text_.substr(0, at);
        throw Error(fmt::format("line {}: not XML: {}",
                                1 + std::count(before.begin(), before.end(), '\n'), why));
    }
    /// Throws pugixml's own reason, with the tag that it is about.
    [[noreturn]] void refuse(const pugi::xml_parse_result& result) const {
        const auto end = std::min(static_cast<std::size_t>(result.offset), text_.size());
        if (result.status == pugi::status_no_document_element) wrong(end, "there is no element");
        const char* opening = result.status == pugi::status_bad_comment ? "<!--" : "<";
        auto tag = text_.rfind(opening, end);
        if (tag == text_.npos) tag = end;
        const auto excerpt = text_.substr(tag, text_.find_first_of(">\n", tag) + 1 - tag);
        if (result.status == pugi::status_end_element_mismatch && tag + excerpt.size() <= end)
            wrong(end, "an element has no end tag");
        wrong(tag, fmt::format("{} at '{}'", result.description(), excerpt.substr(0, 40)));
    }
    void check(pugi::xml_node node, int depth) const {
        if (depth > depth_max) wrong(at(node), "it is nested too deeply");
        for (const pugi::xml_attribute a : node.attributes()) {
            const std::string_view value = a.value();
            if (node.attribute(a.name()) != a)
                wrong(at(node), fmt::format("attribute '{}' is given twice", a.name()));
            if (value.find('<') != value.npos)
                wrong(at(node), fmt::format("'<' in attribute '{}': write '&lt;'", a.name()));
            for (auto i = value.find('&'); i != value.npos; i = value.find('&', i + 1))
                if (!is_entity(value.substr(i)))
                    wrong(at(node), fmt::format("'&' in attribute '{}' begins no entity: write "
                                                "'&amp;'",
                                                a.name()));
        }
        for (const pugi::xml_node child : node.children())
            if (child.type() == pugi::node_element) check(child, depth + 1);
    }
    static bool is_entity(std::string_view text) {
        for (const char* known : {"&lt;", "&gt;", "&amp;", "&quot;", "&apos;"})
            if (text.starts_with(known)) return true;
        return false;
    }

    pugi::xml_document document_;
    std::string_view text_;
};

struct Gpu {
    int dev = 0, sm = 0;
    std::string bus{}, device{};
    PciePort port{};
    Element element;
};
struct Nic {
    double mbps = 0;
    PciePort port{};
};

/// GB/s = lanes x rate of one in 100 Mb/s / 80. Source: NVIDIA/nccl src/graph/topo.cc.
[[nodiscard]] inline BytesPerSecond pcie_rate(const Element& pci) {
    constexpr std::array<std::pair<double, double>, 6> generations{
        {{2.5, 15}, {5, 30}, {8, 60}, {16, 120}, {32, 240}, {64, 480}}};
    double lane = 60;  // what NCCL takes for an unknown speed
    if (!pci.text("link_speed").empty()) {
        const double gts = pci.number("link_speed", 0, 1000);
        for (const auto& [written, rate] : generations)
            if (written == gts) lane = rate;
    }
    double lanes = pci.has("link_width") ? pci.integer("link_width", 32) : 0;
    if (lanes == 0) lanes = 16;  // as NCCL takes it
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
            g.element.wrong("attribute 'sm' is '" + std::to_string(g.sm) +
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

    MachineSpec all(const Element& system) {
        if (system.name() != "system") system.wrong("the root of a topology is <system>");
        Wiring& w = m_.wiring;
        w.known = true;
        w.sockets = 0;
        for (const Element& cpu : system.children()) {
            if (cpu.name() != "cpu") continue;
            if (w.sockets == Wiring::most_sockets) cpu.wrong("at most 8 <cpu> are described");
            const double model = cpu.has("modelid") ? cpu.number("modelid", 0, 1e6) : 0;
            set_host(w, cpu.text("arch"), cpu.text("vendor"), model);
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
    void walk(const Element& e, const PciePort& at) {
        for (const Element& child : e.children()) {
            if (child.name() == "pci") pci(child, at);
            else if (child.name() == "nic")
                nic(child, {.rate = wiring::pcie3_x16, .under = at.under, .socket = at.socket});
            else if (child.name() == "gpu") child.wrong("a <gpu> is inside a <pci>");
        }
    }
    void pci(const Element& e, PciePort at) {
        at.rate = pcie_rate(e);
        bool device = false, below = false;
        for (const Element& child : e.children()) {
            if (child.name() == "gpu") gpu(e, child, at), device = true;
            else if (child.name() == "nic") nic(child, at), device = true;
            below = below || child.name() == "pci";
        }
        if (device || !below) return;
        Wiring& w = m_.wiring;
        if (w.switches == Wiring::most_switches) e.wrong("at most 16 PCIe switches are described");
        w.pcie_switch[static_cast<std::size_t>(w.switches)] = at;
        const PciePort inside{.rate = {}, .under = w.switches++, .socket = at.socket};
        walk(e, inside);
    }
    void gpu(const Element& pci, const Element& e, const PciePort& at) {
        const Gpu g{.dev = e.integer("dev", 1023),
                    .sm = e.integer("sm", 999),
                    .bus = pci.at("busid"),
                    .device = pci.text("device"),
                    .port = at,
                    .element = e};
        for (const Gpu& other : gpus_)
            if (other.dev == g.dev || other.bus == g.bus)
                e.wrong("attribute 'dev' or the busid is that of the GPU of line " +
                        std::to_string(other.element.line()));
        if (gpus_.size() == Wiring::most_gpus) e.wrong("at most 16 GPUs are described");
        gpus_.push_back(g);
    }
    void nic(const Element& e, const PciePort& at) {
        for (const Element& net : e.children()) {
            if (net.name() != "net") continue;
            const double mbps = net.has("speed") ? net.number("speed", 1, 1e9) : 10'000;
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
                gpus_[i].element.wrong("GPUs of one machine are alike: 'sm' differs from line " +
                                       std::to_string(gpus_[0].element.line()));
            int to_switch = 0;
            for (const Element& link : gpus_[i].element.children())
                if (link.name() == "nvlink") nvlink(i, link, to_switch);
            m_.wiring.nvswitch_links = std::max(m_.wiring.nvswitch_links, to_switch);
        }
    }
    void nvlink(std::size_t from, const Element& e, int& to_switch) {
        const int count = e.integer("count", 255);
        const std::string target = e.at("target");
        for (std::size_t to = 0; to < gpus_.size(); ++to)
            if (gpus_[to].bus == target) {
                m_.wiring.nvlinks[from][to] = static_cast<unsigned char>(count);
                return;
            }
        if (!e.text("tclass").starts_with("0x0680"))
            e.wrong("attribute 'target' is '" + target +
                    "': no GPU here has that busid, and tclass does not say NVSwitch (0x068000)");
        to_switch += count;
        if (to_switch > 255) e.wrong("more than 255 NVLinks lead to NVSwitches from one GPU");
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

/// Reads a machine from NCCL's topology XML.
///
/// Ranks follow the first ring of NVLinks if there is one, else the GPUs' `dev`. Rates are those
/// that NCCL 2.30 derives; host memory and prices are unknown. The GPU is known by its PCI id, else
/// by `sm`: set `gpu` to correct it. NICs slower than the fastest are ignored.
/// Errors: gx::Error with line, element, attribute and range; with the line of what is not XML. A
///         document type, and so any entity of its own, is refused.
/// Source: NVIDIA/nccl src/graph/topo.cc and topo.h.
[[nodiscard]] inline MachineSpec machine_from_nccl_xml(std::string_view text, Label name) {
    const detail::nccl_xml::Document document(text);
    return detail::nccl_xml::Import(name).all(document.element());
}

}  // namespace gx::sim
