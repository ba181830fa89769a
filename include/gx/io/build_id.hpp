// build_id: which build of a program this process runs.
#pragma once

#include <cstddef>  // size_t
#include <cstdint>  // notes
#include <span>     // notes
#include <string>   // hexadecimal digits

#include <gx/core/decl.hpp>  // GX_DECL

namespace gx {

/// The GNU build id of this process's program, in hexadecimal digits; "" where it was linked
/// without one (ld's --build-id=none). Equal source, compiler, flags and libraries give equal ids,
/// with debug information or __FILE__ in one folder alone (else -ffile-prefix-map); shared
/// libraries have their own.
/// Cost: reads memory alone.
/// Source: ELF's PT_NOTE segments, elf(5); ld(1), --build-id.
[[nodiscard]] GX_DECL std::string build_id();

namespace detail::elf_notes {

/// The build id in the notes of a segment whose parts begin at multiples of `alignment`, or "".
[[nodiscard]] GX_DECL std::string id_in(std::span<const std::uint8_t> notes, std::size_t alignment);

}  // namespace detail::elf_notes

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/io/impl/build_id.ipp>
#endif
