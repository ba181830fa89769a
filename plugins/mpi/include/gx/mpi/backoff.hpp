// Backoff: pauses between the tests of messages that have not come yet.
#pragma once

#include <algorithm>  // clamp
#include <chrono>     // pauses
#include <ranges>     // input_range

#include <gx/core/decl.hpp>       // GX_DECL
#include <gx/core/transport.hpp>  // Placement

namespace gx::mpi {

/// Whom a wait is for: messages of this host come through its memory, others over a network.
enum class Peers { this_host, other_hosts };

/// Of rank `rank`, which waits for messages of or to `peers`: other_hosts where all are there.
template <std::ranges::input_range R>
[[nodiscard]] constexpr Peers peers_of(const Placement& placement, int rank, R&& peers) {
    for (const int peer : peers)
        if (placement.node_of(peer) == placement.node_of(rank)) return Peers::this_host;
    return Peers::other_hosts;
}

/// How long to sleep before the next test of what other hosts send, after a wait of `waited`: at
/// first not at all (yield), from 100 us on 20 us, later a 64th of the wait, at most 150 us. A test
/// is a call of the kernel there.
[[nodiscard]] constexpr std::chrono::nanoseconds sleep_after(std::chrono::nanoseconds waited) {
    using std::chrono::microseconds;
    constexpr microseconds awake{100}, shortest{20}, longest{150};
    if (waited < awake) return {};
    return std::clamp<std::chrono::nanoseconds>(waited / 64, shortest, longest);
}

/// Pauses between tests of what is not done. Among ranks of this host: 64 yields, then sleeps of 20
/// to 50 us; between hosts sleep_after().
///
/// A rank that waits inside MPI spins, and takes the core of the rank that it waits for: with four
/// ranks on two cores of a Xeon, a blocking MPI_Allreduce of 1 KiB took 16 ms in MPICH, and a ring
/// over tests with yields 19 us.
class Backoff {
public:
    explicit Backoff(Peers peers = Peers::this_host) : peers_(peers) {}

    /// `tested`: how long the test took. On this host one that took long has moved a part of a
    /// message, and then there is no reason to pause.
    GX_DECL void pause(std::chrono::nanoseconds tested = {});

private:
    Peers peers_;
    int pauses_ = 0;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace gx::mpi

#if defined(GX_HEADER_ONLY)
#include <gx/mpi/impl/backoff.ipp>
#endif
