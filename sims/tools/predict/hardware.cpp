#include <tools/predict/hardware.hpp>

#include <algorithm>  // max, min
#include <cmath>      // abs

#include <fmt/core.h>  // format

#include <gx/sim/catalog/cluster_of.hpp>    // with_gpus
#include <gx/sim/catalog/find_gpu.hpp>      // families
#include <gx/sim/catalog/find_machine.hpp>  // machine_makers
#include <gx/sim/catalog/comm_stacks.hpp>   // profiles
#include <tools/common/text.hpp>            // lower, states
#include <tools/predict/transport.hpp>      // is_rdma

namespace gx::tools::predict {

namespace {

using namespace sim;

std::string family(const GpuSpec& gpu) {
    return lower(sim::detail::find_gpu::family(sim::detail::find_gpu::words(gpu.name)));
}

/// Or newer.
bool is_hopper(const GpuSpec& gpu) { return family(gpu)[0] == 'h' || family(gpu)[0] == 'b'; }

/// Of "PCIe 4", "PCIe gen4 x16", "PCI Express 5.0": a version stands right behind such a word.
bool is_new_pcie(std::string_view link) {
    for (const std::string_view word : {"pcie", "pci-e", "pci express", "pci-express", "gen"})
        for (auto at = link.find(word); at != link.npos; at = link.find(word, at + 1)) {
            auto rest = link.substr(at + word.size());
            rest.remove_prefix(std::min(rest.find_first_not_of(" -v."), rest.size()));
            const bool one_digit = rest.size() < 2 || rest[1] < '0' || rest[1] > '9';
            if (!rest.empty() && '4' <= rest[0] && rest[0] <= '7' && one_digit) return true;
        }
    return false;
}

/// What a text says of the link between GPUs.
struct SaidLink {
    bool nvlink = false, pcie = false;
};
SaidLink said_link(std::string_view link) {
    SaidLink said;
    const bool no_peers = denies(link, "p2p") || denies(link, "peer-to-peer");
    for (const char* word : {"nvlink", "nvswitch", "sxm", "xgmi", "infinity"}) {
        said.nvlink = said.nvlink || (states(link, word) && !no_peers);
        said.pcie = said.pcie || denies(link, word);
    }
    if (said.nvlink) said.pcie = false;
    for (const char* word : {"pci", "qpi", "upi", "none", "shared memory", "host memory"})
        said.pcie = said.pcie || states(link, word);
    for (const char* word : {"pix", "pxb", "phb", "sys", "shm"})  // of nvidia-smi and NCCL
        said.pcie = said.pcie || states(link, word, Word::apart);
    said.pcie = said.pcie || no_peers;
    return said;
}

/// Source: bus bandwidth of all-reduce as published: 120 to 130 GB/s on a DGX-1V (nccl-dgx1v),
///         230.8 on eight A100 (nccl-p4d), 370 on eight H100 (nccl-intra). P100: four links of
///         18 GB/s, two rings of the mesh. PCIe 4: 20 GB/s between two A100 (nccl-intra); PCIe 3:
///         half of NCCL's 12 GB/s, because pairs of GPUs share the port of a switch.
Inside inside_of(const Conditions& c, std::vector<std::string>& remarks) {
    using Link = Inside::Link;
    using namespace gx::literals;
    const std::string gpu = family(c.gpu), name = lower(c.gpu.name.view());
    const bool modern = has(name, "sxm");
    const auto [named, pcie] = said_link(c.link);
    const bool either = named && pcie;  // "NVLink or PCIe, not stated"
    const bool nvlink = either || (!named && !pcie) ? modern : named;
    const bool silent =
        c.link.find_first_of("abcdefghijklmnopqrstuvwxyz0123456789") == std::string::npos ||
        c.link == "n/a" || has(c.link, "not stated") || has(c.link, "unknown");
    if (!named && !pcie && !silent)
        remarks.push_back(fmt::format("intra_node_link '{}' not known: {} assumed", c.link,
                                      nvlink ? "NVLink" : "PCIe"));
    const bool ampere = c.gpu.tf32.count > 0;  // or newer
    if (!nvlink) return {Link::pcie, ampere || is_new_pcie(c.link) ? 20_GBps : 6_GBps};
    const bool hopper = is_hopper(c.gpu);
    const Link link = states(c.link, "nvswitch") || hopper ? Link::nvswitch : Link::nvlink;
    if (gpu == "b200") return {link, 650_GBps};
    if (gpu == "a800" || gpu == "h800") return {link, 160_GBps};
    if (hopper) return {link, 370_GBps};
    if (gpu == "a100") return {link, 230_GBps};
    if (gpu == "v100") return {link, 120_GBps};
    return {link, 50_GBps};
}

const Profile& library_of(const GpuSpec& gpu) {
    if (is_hopper(gpu)) return nccl_2_30;
    return gpu.tf32.count > 0 ? nccl_2_10 : nccl_2_5;
}

/// Of a machine where nothing says its NICs: 10 Gb/s of Ethernet, else 100 Gb/s, and since A100 as
/// a GPU on SXM boards commonly has for itself: 100 Gb/s, Hopper's 400.
double usual_gbps(const Conditions& c) {
    if (!is_rdma(c.transport, 100)) return 10;
    const bool board = has(lower(c.gpu.name.view()), "sxm") && c.gpu.tf32.count > 0;
    return board ? std::max(100.0, c.gpus_per_node * (is_hopper(c.gpu) ? 400.0 : 100.0)) : 100;
}

/// Whether the transport is FDR InfiniBand: as it says, or by 56 Gb/s where it names no other.
bool is_fdr(std::string_view transport, double gbps) {
    if (has(transport, "fdr")) return states(transport, "fdr");
    for (const char* word : {"qdr", "edr", "hdr", "ndr", "xdr", "roce", "ethernet", "gbe", "omni",
                             "aries", "slingshot", "gemini", "efa"})
        if (states(transport, word)) return false;
    return gbps == 56 && !is_omni_path(transport);
}

bool uses_sockets(const Profile& profile) {
    const std::string_view name = profile.name.view();
    return has(name, "tcp") || has(name, "grpc");
}

/// Connections of NCCL between two machines, one for each ring: eight or more over NVLink, two
/// where GPUs share a PCIe.
int tcp_flows(const Inside& inside) { return inside.link == Inside::Link::pcie ? 2 : 8; }

/// Whether gradients are summed in the host's memory by MPI or Gloo: Horovod without NCCL.
bool sums_on_host(const Conditions& c) {
    const bool horovod = states(c.framework, "horovod") || states(c.collective, "horovod") ||
                         states(c.collective, "mpi");
    return horovod && !states(c.collective, "nccl") &&
           (states(c.collective, "host memory") || states(c.collective, "on the cpu") ||
            denies(c.collective, "nccl") || denies(c.framework, "nccl"));
}

/// The network's profile, and the share of its goodput that stacks of its time reached.
void set_network(const Conditions& c, const Calibration& k, const Stack& stack, Hardware& h,
                 std::vector<std::string>& remarks) {
    double gbps = c.nic_gbps_per_node;
    if (gbps == 0) {
        gbps = usual_gbps(c);
        remarks.push_back(fmt::format("NIC not stated: {} Gb/s assumed", gbps));
    }
    const bool omni = is_omni_path(c.transport), rdma = is_rdma(c.transport, gbps);
    const Profile* network = &roce_100g;
    const bool servers = stack.scheme == Scheme::servers;
    const bool grpc = servers || stack.scheme == Scheme::local_servers;  // connections enough
    if (states(c.transport, "grpc") || servers) network = &parameter_server_grpc;
    else if (!rdma) network = gbps <= 10 ? &tcp_10g : &tcp_aws;
    else if (is_fdr(c.transport, gbps)) network = &ib_fdr;
    else if (!states(c.transport, "roce")) network = &ib_edr;
    h.share = omni ? k.omni_path_share : rdma ? k.rdma_share : k.tcp_share;
    if (!rdma && gbps <= 10 && stack.ethernet_gbps > 0) gbps = stack.ethernet_gbps, h.share = 1;
    if (!rdma) gbps = std::min(gbps, k.tcp_flow_gbps * (grpc ? 8 : tcp_flows(h.inside)));
    if (h.inside.link == Inside::Link::pcie)
        gbps = std::min(gbps, h.inside.bus.count < 10e9 ? k.host_path_gbps : k.host_path4_gbps);
    if (sums_on_host(c)) gbps = std::min(gbps, k.host_mpi_gbps);
    if (servers) h.share = 1;  // grpc_share says what their connections reach
    h.nic = {gbps * 1e9 / 8};
    h.profile = library_of(c.gpu) + *network;
    h.sockets = uses_sockets(h.profile);
}

}  // namespace

Between between(const sim::ClusterSpec& cluster) {
    if (cluster.machines == 1) return Between::links;
    return uses_sockets(cluster.profile) ? Between::sockets : Between::rdma;
}

void Hardware::measure(const sim::ClusterSpec& cluster) {
    measured = &cluster;
    profile = cluster.profile;
    machine = std::string(cluster.name.view());
    const MachineSpec& m = cluster.machine;
    if (m.peer_bandwidth.count > 0) inside.bus = m.peer_bandwidth, inside.shared = {};
    nic = cluster.nic_rate() * double(m.nics);
    share = 1;
    sockets = false;
    trees = false;  // what was measured is the faster of both
}

sim::ClusterSpec Hardware::spec(int machines, int gpus) const {
    if (measured != nullptr) {
        ClusterSpec s = *measured;
        MachineSpec& m = s.machine;
        if (m.wiring.known) m = with_gpus(m, gpus);
        // NCCL's rings share NVLinks and NICs: the one that is simulated has what all have.
        const double nics = std::max(1, m.nics);
        const BytesPerSecond port = m.wiring.known ? m.wiring.gpu[0].rate : BytesPerSecond{};
        m.host_bandwidth = std::max(m.host_bandwidth, port) * nics;
        m.nic_line_rate = m.nic_line_rate * nics;
        m.nics = std::min(1, m.nics);
        m.wiring = {};
        m.peer_bandwidth = inside.bus_of(gpus);
        m.gpus = gpus;
        m.gpu = gpu;
        s.machines = machines;
        return s;
    }
    ClusterSpec s{.name = "predicted",
                  .machine = {.gpu = gpu, .gpus = gpus},
                  .machines = machines,
                  .goodput = share,
                  .profile = profile};
    s.machine.peer_bandwidth = inside.bus_of(gpus);
    s.machine.host_bandwidth = s.machine.nic_line_rate = nic;
    return s;
}

std::string machine_name(const Conditions& c) {
    for (const auto make : machine_makers) {
        const MachineSpec m = make();
        const double gbps = m.nic_line_rate.count * 8e-9 * m.nics;
        if (m.gpu.name == c.gpu.name && m.gpus == c.gpus_per_node &&
            (c.nic_gbps_per_node == 0 || std::abs(gbps - c.nic_gbps_per_node) < 1))
            return std::string(m.name.view());
    }
    return std::to_string(c.gpus_per_node) + " x " + std::string(c.gpu.name.view());
}

Hardware hardware_of(const Conditions& c, const Stack& stack, const Calibration& k,
                     std::vector<std::string>& remarks) {
    Hardware h{.inside = inside_of(c, remarks), .gpu = c.gpu};
    if (c.no_peers && h.inside.link == Inside::Link::pcie)
        h.inside.shared = {k.host_copies_gbps * 1e9 / 8};
    if (sums_on_host(c)) h.inside.bus = std::min(h.inside.bus, {k.host_mpi_gbps * 1e9 / 8});
    set_network(c, k, stack, h, remarks);
    h.trees = (c.gpu.has_tensor_cores() || c.gpu.tf32.count > 0) &&
              !states(c.collective, "nccl 2.2", Word::apart);
    return h;
}

}  // namespace gx::tools::predict
