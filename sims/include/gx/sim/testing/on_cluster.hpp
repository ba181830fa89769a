// OnCluster: the simulated world that conformance checks run on.
#pragma once

#include <cstddef>      // byte
#include <cstdint>      // seeds
#include <span>         // messages
#include <type_traits>  // remove_reference_t
#include <utility>      // declval

#include <gx/core/rng.hpp>                     // Rng
#include <gx/core/transport.hpp>               // TransportOver, Placement
#include <gx/sim/world/cluster.hpp>            // Cluster
#include <gx/sim/catalog/simple_clusters.hpp>  // p3_16xlarge
#include <gx/sim/race/monitor.hpp>             // detect_races

namespace gx::sim {

/// The endpoint of a rank that waits before each send for a virtual time drawn from a seed: from
/// 0 to 1 ms, most often short, so messages of different ranks arrive in any order.
template <class Rank>
class JitteredEndpoint
    : public TransportOver<std::remove_reference_t<decltype(std::declval<Rank&>().transport())>> {
public:
    JitteredEndpoint(Rank& rank, std::uint64_t seed)
        : JitteredEndpoint::TransportOver(rank.transport()),
          rank_(rank),
          rng_(Rng(seed, "gx::sim arrival order").at(static_cast<std::uint64_t>(rank.rank()))) {}

    Request send(int to, int channel, std::span<const std::byte> message) {
        const std::uint64_t scale = std::uint64_t{1} << rng_.below(2 * sends_, 21);  // ns
        rank_.charge(Nanoseconds(static_cast<std::int64_t>(rng_.below(2 * sends_ + 1, scale))),
                     "delivery jitter");
        ++sends_;
        return this->under().send(to, channel, message);
    }

private:
    Rank& rank_;
    Rng rng_;
    std::uint64_t sends_ = 0;
};

namespace detail {

/// Runs f on a cluster of this placement, with race detection.
template <class F>
void run_on_cluster(Placement placement, F f) {
    auto spec = plain_p3_16xlarge(placement.machines);
    spec.machine.gpus = placement.ranks_per_machine;
    Cluster<>(spec, {.detect_races = true}).run(f);
}

template <class Rank>
struct JitteredRank {
    Rank& inner;
    JitteredEndpoint<Rank> endpoint;
    [[nodiscard]] int rank() const { return inner.rank(); }
    [[nodiscard]] int ranks() const { return inner.ranks(); }
    [[nodiscard]] JitteredEndpoint<Rank>& transport() { return endpoint; }
    [[nodiscard]] auto& stream() { return inner.stream(); }
};

}  // namespace detail

/// A simulated cluster whose messages arrive in an order drawn from a seed.
struct OnJitteredCluster {
    std::uint64_t seed = 0;
    template <class F>
    void operator()(Placement placement, F f) const {
        detail::run_on_cluster(placement, [&](auto& rank) {
            detail::JitteredRank<std::remove_reference_t<decltype(rank)>> jittered{rank,
                                                                                   {rank, seed}};
            f(jittered);
        });
    }
};

/// `on(placement, f)` calls f(rank) for every rank of a simulated cluster with race detection; the
/// counterpart of gx::testing::OnThreads.
///
///     const auto report = gx::testing::check<MyReducer>(gx::sim::OnCluster{});
struct OnCluster {
    template <class F>
    void operator()(Placement placement, F f) const {
        detail::run_on_cluster(placement, f);
    }
    [[nodiscard]] OnJitteredCluster reordered(std::uint64_t seed) const { return {seed}; }
};

}  // namespace gx::sim
