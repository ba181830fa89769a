// nccl_all_reduce_time: NCCL's own cost model of an all-reduce, from a profile's tables.
#pragma once

#include <algorithm>  // max, min
#include <bit>        // bit_width
#include <cstddef>    // size_t
#include <cstdint>    // int64_t, uint64_t

#include <gx/core/contract.hpp>            // GX_EXPECT
#include <gx/sim/hardware/comm_stack.hpp>  // Profile

namespace gx::sim {

/// Inputs of NCCL's cost model of an all-reduce.
struct NcclCall {
    int machines = 1, ranks_per_machine = 1;
    Bytes bytes{};  ///< of the whole buffer, on every rank
    Algorithm algorithm = Algorithm::ring;
    Protocol protocol = Protocol::simple;
    BytesPerSecond bus_bandwidth{};  ///< of all channels
    int channels = 2;
    LinkClass inside = LinkClass::nvlink;  ///< slowest link between ranks of one machine
    int compute_capability = 70;           ///< 10 x major + minor
    Nanoseconds nic_latency{};
    bool amd_host = false;

    [[nodiscard]] constexpr int ranks() const { return machines * ranks_per_machine; }
};

struct NcclTime {
    Nanoseconds latency{}, transfer{};
    [[nodiscard]] constexpr Nanoseconds total() const { return latency + transfer; }
};

namespace detail::nccl {

[[nodiscard]] constexpr Nanoseconds times(Nanoseconds t, double factor) {
    return Nanoseconds(static_cast<std::int64_t>(static_cast<double>(t.count()) * factor + 0.5));
}
[[nodiscard]] constexpr BytesPerSecond capped(BytesPerSecond r, BytesPerSecond cap) {
    return cap.count > 0 ? std::min(r, cap) : r;
}
[[nodiscard]] constexpr BytesPerSecond cap_of(const CapTable& table, std::size_t row,
                                              int machines) {
    return table[row][static_cast<std::size_t>(std::min(machines, 3) - 1)];
}
[[nodiscard]] constexpr std::size_t generation(int compute_capability) {
    return compute_capability >= 90 ? 2 : compute_capability >= 80 ? 1 : 0;
}

[[nodiscard]] constexpr BytesPerSecond ring_bandwidth(const BandwidthRules& b, const NcclCall& c) {
    const auto row = generation(c.compute_capability);
    BytesPerSecond bus = c.bus_bandwidth;
    if (c.protocol == Protocol::ll) {
        // several machines: by the maker of the host, Intel in the first row, AMD in the second
        const std::size_t host = c.amd_host ? 1 : 0;
        const auto cap = cap_of(b.ll_total, c.machines == 1 ? row : host, c.machines);
        return capped(bus * b.ring_ll, cap);
    }
    if (c.protocol == Protocol::simple) return bus;
    bus = bus * (c.ranks_per_machine < 2 ? b.ring_ll128_thin : b.ring_ll128);
    bus = capped(bus, cap_of(b.ll128_ring_channel, row, c.machines) * double(c.channels));
    return capped(bus, b.ll128_total);
}

[[nodiscard]] constexpr BytesPerSecond tree_bandwidth(const BandwidthRules& b, const NcclCall& c) {
    const auto row = generation(c.compute_capability);
    const double channels = c.channels;
    BytesPerSecond bus =
        capped(c.bus_bandwidth * b.tree, c.machines == 1 ? b.tree_total_one : b.tree_total_many);
    bus = capped(bus, cap_of(b.tree_channel, row, c.machines) * channels);
    if (c.protocol == Protocol::ll) {
        const std::size_t host = c.amd_host ? 1 : 0;
        const auto cap = cap_of(b.ll_total, c.machines == 1 ? row : host, c.machines);
        return capped(bus * b.tree_ll, cap);
    }
    if (c.protocol == Protocol::simple) return bus;
    bus = bus * (c.machines == 1 ? b.tree_ll128_one : b.tree_ll128_many);
    bus = capped(bus, cap_of(b.ll128_tree_channel, row, c.machines) * channels);
    return capped(bus, b.ll128_total);
}

[[nodiscard]] constexpr double tree_share(const BandwidthRules& b, const NcclCall& c) {
    const auto units = static_cast<std::uint64_t>(c.bytes.count) / 64;
    if (!b.corrects_tree_by_size || units == 0) return 1;
    const auto size = static_cast<std::size_t>(std::bit_width(units)) - 1;
    const auto& row = b.tree_by_size[static_cast<std::size_t>(c.protocol)];
    return size < row.size() ? row[size] : 1;
}

[[nodiscard]] constexpr Nanoseconds between_machines(const Profile& p, const NcclCall& c) {
    const bool exposed = p.collective.exposes_network && c.ranks_per_machine == 1;
    const Nanoseconds hop =
        p.latency(LinkClass::net, exposed ? Algorithm::tree : c.algorithm, c.protocol);
    return hop + c.nic_latency * (c.protocol == Protocol::simple ? 2 : 1);  // simple: a flush
}

[[nodiscard]] constexpr Nanoseconds inside_machine(const Profile& p, const NcclCall& c) {
    const CollectiveRules& r = p.collective;
    Nanoseconds hop = p.latency(c.inside, c.algorithm, c.protocol);
    if (c.machines == 1) return hop;
    if (c.protocol == Protocol::ll) hop = times(hop, r.ll_inside);
    if (c.algorithm == Algorithm::tree) return hop;
    const Nanoseconds post = c.amd_host ? r.post_amd : r.post_intel;
    return std::max(hop, post * (c.protocol == Protocol::simple ? 3 : 1));
}

[[nodiscard]] constexpr bool on_plateau(const CollectiveRules& r, const NcclCall& c) {
    if (c.machines == 1 || c.algorithm != Algorithm::ring || c.protocol != Protocol::simple)
        return false;
    if (r.plateau_by_channel) return c.bytes.count / (c.channels * c.ranks()) >= 64;
    return c.bytes.count >= std::int64_t{4096} * c.ranks();
}

}  // namespace detail::nccl

/// Whether NCCL enables this protocol by default: LL128 needs Volta or newer and NVLink.
[[nodiscard]] constexpr bool nccl_enables(const NcclCall& c) {
    return c.protocol != Protocol::ll128 ||
           (c.compute_capability >= 70 && c.inside == LinkClass::nvlink);
}

/// NCCL's estimate of the time of an all-reduce.
///
///     ring:  base + (2 (n - 1) - 2 (m - 1)) inside + 2 (m - 1) between + bytes / (bus n / 2 (n-1))
///     tree:  base + 2 ((n / m - 1) inside + floor(log2 m) between)     + bytes / (bus / 2)
///
/// on n ranks of m machines; `bus` is the bandwidth that the protocol leaves. A ring of protocol
/// simple over several machines pays its latency times a plateau.
/// Errors: fewer than one machine, rank or channel, or no bandwidth, breaks the contract.
/// Source: NVIDIA/nccl src/graph/tuning.cc, of the profile's version.
[[nodiscard]] constexpr NcclTime nccl_all_reduce_time(const Profile& p, const NcclCall& c) {
    namespace d = detail::nccl;
    GX_EXPECT(c.machines > 0 && c.ranks_per_machine > 0 && c.channels > 0 && c.bytes.count >= 0 &&
                  c.bus_bandwidth.count > 0,
              "NCCL's model needs a machine, a rank, a channel and a bus bandwidth above 0");
    const int n = c.ranks();
    if (n == 1) return {};
    const CollectiveRules& r = p.collective;
    const Nanoseconds inside = d::inside_machine(p, c), between = d::between_machines(p, c);
    NcclTime t{.latency = r.base[c.algorithm][c.protocol]};
    BytesPerSecond rate{};
    if (c.algorithm == Algorithm::ring) {
        const int steps = 2 * (n - 1);
        const int crossing = c.machines == 1           ? 0
                             : r.every_step_is_slowest ? steps
                                                       : 2 * (c.machines - 1);
        t.latency += inside * (steps - crossing) + between * crossing;
        rate = d::ring_bandwidth(r.bandwidth, c) * (double(n) / steps);
    } else {
        const int levels = std::bit_width(static_cast<unsigned>(c.machines)) - 1;
        t.latency += 2 * ((c.ranks_per_machine - 1) * inside + levels * between);
        rate = d::tree_bandwidth(r.bandwidth, c) * (0.5 * d::tree_share(r.bandwidth, c));
    }
    if (d::on_plateau(r, c))
        t.latency = d::times(t.latency, c.compute_capability < 80 ? r.plateau : r.plateau_sm80);
    t.transfer = c.bytes / rate;
    return t;
}

/// Algorithm and protocol that NCCL would choose: the least estimate of those it enables; ties go
/// to trees before rings, and LL before LL128 before simple.
[[nodiscard]] constexpr NcclCall nccl_choice(const Profile& p, NcclCall c) {
    NcclCall best = c;
    Nanoseconds least = Nanoseconds::max();
    for (const Algorithm a : {Algorithm::tree, Algorithm::ring})
        for (const Protocol q : {Protocol::ll, Protocol::ll128, Protocol::simple}) {
            c.algorithm = a;
            c.protocol = q;
            if (!nccl_enables(c)) continue;
            const Nanoseconds t = nccl_all_reduce_time(p, c).total();
            if (t >= least) continue;
            least = t;
            best = c;
        }
    return best;
}

}  // namespace gx::sim
