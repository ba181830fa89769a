// EventHash: a 64-bit hash of a simulated run's events; equal runs have equal hashes.
#pragma once

#include <bit>      // rotl
#include <cstdint>  // uint64_t

#include <gx/core/hash.hpp>   // mix64
#include <gx/core/units.hpp>  // Nanoseconds

namespace gx::sim {

/// Kinds of hashed events; the numbers are part of the hash and do not change.
enum class EventKind : std::uint32_t {
    message_posted = 1,   ///< a: to, channel; b: bytes on the wire
    message_arrived = 2,  ///< a: to, channel; b: bytes on the wire
    charge = 3,           ///< a: activity; b: nanoseconds
    rank_done = 4,
    failure = 5
};

/// Hash of the seed, and the time, kind, rank and two numbers of each event; not the payload, so
/// that a run with payload and one without can be compared.
class EventHash {
public:
    constexpr explicit EventHash(std::uint64_t seed) : state_(mix64(seed + golden64)) {}

    constexpr void add(Nanoseconds time, EventKind kind, int rank, std::uint64_t a,
                       std::uint64_t b) {
        const auto who = std::uint64_t{static_cast<std::uint32_t>(kind)} << 32 |
                         static_cast<std::uint32_t>(rank);
        state_ = mix64(state_ ^ static_cast<std::uint64_t>(time.count()));
        state_ = mix64(state_ ^ who ^ std::rotl(a * golden64, 17) ^
                       std::rotl(b * 0xd1b54a32d192ed03u, 41));
    }
    [[nodiscard]] constexpr std::uint64_t value() const { return state_; }

private:
    std::uint64_t state_;
};

}  // namespace gx::sim
