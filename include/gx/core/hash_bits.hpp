// hash_bits: one number for the bits of many values, to compare ranks and runs.
#pragma once

#include <cstddef>  // byte
#include <cstdint>  // uint64_t
#include <span>     // values

#include <gx/core/decl.hpp>  // GX_DECL

namespace gx {

/// Returns the XXH3 hash, 64 bits, seed 0, of the bits of `values`: -0 and 0 differ.
/// Source: Collet, xxHash 0.8, https://github.com/Cyan4973/xxHash.
[[nodiscard]] GX_DECL std::uint64_t hash_bits(std::span<const float> values);
[[nodiscard]] GX_DECL std::uint64_t hash_bytes(std::span<const std::byte> bytes);

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/core/impl/hash_bits.ipp>
#endif
