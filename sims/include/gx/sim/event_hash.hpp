// EventHash: one number that says whether two simulated runs were the same run.
#pragma once

#include <bit>      // rotl
#include <cstdint>  // uint64_t

#include <gx/core/units.hpp>  // Nanoseconds

namespace gx::sim {

/// What is hashed; the numbers are part of the hash and do not change.
enum class EventKind : std::uint32_t {
    message_posted = 1,   ///< a: to, channel; b: bytes on the wire
    message_arrived = 2,  ///< a: to, channel; b: bytes on the wire
    charge = 3,           ///< a: activity; b: nanoseconds
    rank_done = 4,
    failure = 5
};

/// Covers the seed, and the time, kind, rank and two numbers of each event; not the payload, so
/// that a run with payload and one without can be compared.
class EventHash {
public:
    constexpr explicit EventHash(std::uint64_t seed) : state_(mix(seed + 0x9e3779b97f4a7c15u)) {}

    constexpr void add(Nanoseconds time, EventKind kind, int rank, std::uint64_t a,
                       std::uint64_t b) {
        const auto who = std::uint64_t{static_cast<std::uint32_t>(kind)} << 32 |
                         static_cast<std::uint32_t>(rank);
        state_ = mix(state_ ^ static_cast<std::uint64_t>(time.count()));
        state_ = mix(state_ ^ who ^ std::rotl(a * 0x9e3779b97f4a7c15u, 17) ^
                     std::rotl(b * 0xd1b54a32d192ed03u, 41));
    }
    [[nodiscard]] constexpr std::uint64_t value() const { return state_; }

private:
    /// Source: the finaliser of SplitMix64 (Steele, Lea, Flood 2014; constants by D. Stafford).
    static constexpr std::uint64_t mix(std::uint64_t x) {
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
        x = (x ^ x >> 27) * 0x94d049bb133111ebu;
        return x ^ x >> 31;
    }
    std::uint64_t state_;
};

}  // namespace gx::sim
