// FiberStacks: mapping, guarding and reusing stacks.
#pragma once

#include <cerrno>   // errno
#include <cstring>  // strerror
#include <string>   // sentences

#include <sys/mman.h>  // mmap, mprotect, madvise
#include <unistd.h>    // sysconf

#include <gx/core/error.hpp>            // Error
#include <gx/sim/des/fiber_stacks.hpp>  // FiberStacks

namespace gx::sim {

// Never destroyed: fibers of static objects may outlive it.
GX_DECL FiberStacks::Pool& FiberStacks::pool() {
    static Pool& pool = *new Pool;
    return pool;
}

GX_DECL std::size_t FiberStacks::page_bytes() {
    static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return bytes;
}

GX_DECL std::size_t FiberStacks::idle() {
    const std::lock_guard lock(pool().mutex);
    return pool().tops.size();
}

GX_DECL boost::context::stack_context FiberStacks::allocate() {
    boost::context::stack_context stack;
    stack.size = stack_bytes;
    Pool& p = pool();
    {
        const std::lock_guard lock(p.mutex);
        if (!p.tops.empty()) {
            stack.sp = p.tops.back();
            p.tops.pop_back();
            return stack;
        }
    }
    const std::size_t page = page_bytes(), bytes = page + stack_bytes;
    void* const low = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (low == MAP_FAILED || mprotect(low, page, PROT_NONE) != 0) {
        const std::string why = std::strerror(errno);
        if (low != MAP_FAILED) munmap(low, bytes);
        throw Error("no stack for one more fiber: " + why +
                    ". Each simulated rank needs two memory mappings, and each stream that it "
                    "uses two more. Simulate fewer ranks, or raise the limit on mappings "
                    "(Linux: sysctl vm.max_map_count) or on address space (ulimit -v).");
    }
    stack.sp = static_cast<char*>(low) + bytes;
    const std::lock_guard lock(p.mutex);
    p.tops.reserve(most_idle);  // so that deallocate() cannot throw
    return stack;
}

GX_DECL void FiberStacks::deallocate(boost::context::stack_context& stack) noexcept {
    char* const top = static_cast<char*>(stack.sp);
    Pool& p = pool();
    const std::unique_lock lock(p.mutex);
    if (p.tops.size() < most_idle) {
        madvise(top - stack_bytes, stack_bytes - kept_bytes, MADV_DONTNEED);
        return p.tops.push_back(top);
    }
    munmap(top - stack_bytes - page_bytes(), stack_bytes + page_bytes());
}

}  // namespace gx::sim
