// hash_bits, by xxHash.
#pragma once

#define XXH_INLINE_ALL
#if defined(__AVX512F__) && !defined(XXH_VECTOR)
#define XXH_VECTOR 2  // AVX2, no slower here: g++ 12 warns in its own header of AVX-512
#endif
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
