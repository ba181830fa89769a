// crc32c: the CRC-32C checksum (Castagnoli), by SSE4.2 where the processor has it.
#pragma once

#include <cstdint>  // uint32_t
#include <span>     // bytes

#include <gx/core/decl.hpp>  // GX_DECL

namespace gx {

/// CRC-32C of `bytes`: polynomial 0x1EDC6F41, reflected; initial value and final XOR 0xffffffff.
/// Cost:   8 bytes an instruction with SSE4.2, else 8 bytes by 8 table reads.
/// Source: RFC 3720, section 12.1 and appendix B.4.
[[nodiscard]] GX_DECL std::uint32_t crc32c(std::span<const std::uint8_t> bytes);

/// The CRC-32C of `bytes` as TFRecord files hold it: rotated by 15 bits, plus a constant, so that a
/// CRC over bytes that hold CRCs stays a good one.
/// Source: tensorflow.org/tutorials/load_data/tfrecord.
[[nodiscard]] GX_DECL std::uint32_t masked_crc32c(std::span<const std::uint8_t> bytes);

namespace detail::crc {
/// The portable path of crc32c.
[[nodiscard]] GX_DECL std::uint32_t crc32c_portable(std::span<const std::uint8_t> bytes);
}  // namespace detail::crc

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/io/impl/crc32c.ipp>
#endif
