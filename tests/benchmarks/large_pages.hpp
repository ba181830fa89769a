// on_large_pages: memory of the peers and of the floor, on pages as gx's own buffers have them.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>

namespace gx::bench {

/// `bytes` of memory, to be freed; on the nearest number of pages of 2 MiB, where the kernel has
/// them: from half a page on at least one.
inline void* on_large_pages(std::size_t bytes) {
    constexpr std::size_t page = std::size_t{2} << 20;
    const std::size_t paged = (bytes + page / 2) / page * page;
    void* memory = nullptr;
    if (posix_memalign(&memory, page, std::max(bytes, paged)) != 0) std::abort();
    if (paged > 0) (void)madvise(memory, paged, MADV_HUGEPAGE);
    return memory;
}

}  // namespace gx::bench
