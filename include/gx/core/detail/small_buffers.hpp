// SmallBuffers: buffers of tens of KiB that share pages of 2 MiB.
#pragma once

#include <cstddef>  // size_t

#include <gx/core/decl.hpp>  // GX_DECL

namespace gx::detail {

/// Memory of buffers that are too small for a page of 2 MiB each, on such pages together: a message
/// to another process has fewer pages to be found: a fifth of a ring of 64 KiB over Open MPI.
/// Freed memory is kept for the next buffers.
///
/// Blocks are of 2^k bytes, on multiples of 4 KiB.
/// Errors:  std::bad_alloc.
/// Threads: any; also where another one forks.
class SmallBuffers {
public:
    static constexpr std::size_t least = std::size_t{16} << 10, most = std::size_t{512} << 10;
    static constexpr std::size_t page = std::size_t{2} << 20, alignment_most = 4096;

    [[nodiscard]] static bool takes(std::size_t bytes, std::size_t alignment) {
        return bytes >= least && bytes <= most && alignment <= alignment_most;
    }
    /// Requires: takes(bytes, ...).
    [[nodiscard]] GX_DECL static void* allocate(std::size_t bytes);
    /// What allocate(bytes) has returned, in whatever library of the program.
    GX_DECL static void release(void* block, std::size_t bytes) noexcept;
};

}  // namespace gx::detail

#if defined(GX_HEADER_ONLY)
#include <gx/core/impl/small_buffers.ipp>
#endif
