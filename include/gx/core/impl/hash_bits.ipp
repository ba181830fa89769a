// hash_bits, by xxHash.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>  // XXH3_64bits

#include <gx/core/hash_bits.hpp>  // hash_bits

namespace gx {

GX_DECL std::uint64_t hash_bits(std::span<const float> values) {
    return XXH3_64bits(values.data(), values.size_bytes());
}
GX_DECL std::uint64_t hash_bytes(std::span<const std::byte> bytes) {
    return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace gx
