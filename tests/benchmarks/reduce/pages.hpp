// pages_kib: the pages that memory lies on, as the kernel has mapped them.
#pragma once

#include <sys/mman.h>  // madvise

#include <cinttypes>  // SCNxPTR
#include <cstddef>    // size_t
#include <cstdint>    // uintptr_t
#include <cstdio>     // sscanf
#include <fstream>    // smaps
#include <string>     // lines

namespace gx::bench {

/// KiB of the pages of `bytes` at `memory`, all of which were written before: 2048 if at least half
/// of what is mapped lies on pages of 2 MiB, else 4.
/// Cost:   a walk over all pages of the process; not for a part that is timed.
/// Source: Linux, Documentation/filesystems/proc.rst, smaps; madvise(2).
inline int pages_kib(void* memory, std::size_t bytes) {
    constexpr std::uintptr_t page = std::uintptr_t{2} << 20;
    const auto at = reinterpret_cast<std::uintptr_t>(memory);
    const std::uintptr_t from = at / page * page, to = (at + bytes + page - 1) / page * page;
    auto* const begin = reinterpret_cast<void*>(from);
    // smaps counts by mapping, and a heap has pages of both sizes. A flag of its own makes these
    // pages of 2 MiB a mapping of their own; none is split, as it begins and ends between two.
    (void)madvise(begin, to - from, MADV_DONTDUMP);
    std::ifstream maps("/proc/self/smaps");
    long large_kib = 0, all_kib = 0;
    bool inside = false;
    for (std::string line; std::getline(maps, line);) {
        std::uintptr_t first = 0, last = 0;
        long kib = 0;
        if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &first, &last) == 2)
            inside = from <= first && last <= to;
        else if (!inside) continue;
        else if (std::sscanf(line.c_str(), "Rss: %ld", &kib) == 1) all_kib += kib;
        else if (std::sscanf(line.c_str(), "AnonHugePages: %ld", &kib) == 1 ||
                 std::sscanf(line.c_str(), "ShmemPmdMapped: %ld", &kib) == 1)
            large_kib += kib;
    }
    (void)madvise(begin, to - from, MADV_DODUMP);
    return large_kib > 0 && 2 * large_kib >= all_kib ? 2048 : 4;
}

}  // namespace gx::bench
