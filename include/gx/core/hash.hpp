// mix64, hash_name: the hashes of random streams and of events, as constant expressions.
#pragma once

#include <cstdint>      // uint64_t
#include <string_view>  // names

namespace gx {

/// Returns a bijection of 64-bit words: the finaliser of SplitMix64.
/// Source: Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators", OOPSLA;
///         constants by D. Stafford.
[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}
/// The step of SplitMix64: 2^64 over the golden ratio.
inline constexpr std::uint64_t golden64 = 0x9e3779b97f4a7c15u;

/// Returns the FNV-1a hash of a name. Source: Fowler, Noll and Vo, 1991.
[[nodiscard]] constexpr std::uint64_t hash_name(std::string_view name) {
    std::uint64_t h = 0xcbf29ce484222325u;
    for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    return h;
}

}  // namespace gx
