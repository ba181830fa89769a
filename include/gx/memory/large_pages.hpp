// LargePages: memory resource of the host on pages of 2 MiB, for large buffers.
#pragma once

#if defined(__linux__)
#include <sys/mman.h>  // madvise
#endif

#include <cstddef>  // byte
#include <cstring>  // memset
#include <new>      // operator new

#include <gx/core/detail/sanitizers.hpp>  // GX_ADDRESS_SANITIZER
#include <gx/memory/buffer.hpp>           // MemoryResource

namespace gx {

/// Each buffer of `least` bytes or more has whole pages of 2 MiB, where the kernel has them. For
/// messages to other processes of a machine: the kernel pins each page that it copies. Shorter ones
/// lie as all memory of the host.
///
/// Errors:  std::bad_alloc.
/// Threads: it has no state.
/// Cost:    less than 2 MiB more for each buffer, and 2 MiB more of address space.
/// Source:  Linux, Documentation/admin-guide/mm/transhuge.rst; process_vm_readv(2).
class LargePages final : public MemoryResource {
public:
    static constexpr std::size_t page = std::size_t{2} << 20, least = std::size_t{16} << 10;

    [[nodiscard]] std::byte* allocate(std::size_t bytes, const Label&) override {
        const std::size_t taken = whole(bytes);
        void* const memory = ::operator new(taken, alignment(bytes));
#if defined(MADV_HUGEPAGE)
        if (taken % page == 0) (void)::madvise(memory, taken, MADV_HUGEPAGE);  // a wish
#endif
        std::memset(memory, 0, bytes);
        return static_cast<std::byte*>(memory);
    }
    void release(std::byte* memory, std::size_t bytes) noexcept override {
        ::operator delete(memory, alignment(bytes));
    }
    [[nodiscard]] const void* memory() const override { return &memory_id<HostMemory>; }

private:
    static constexpr std::align_val_t alignment(std::size_t bytes) {
        return std::align_val_t(bytes < least ? 64 : page);
    }
    static constexpr std::size_t whole(std::size_t bytes) {
#if GX_ADDRESS_SANITIZER
        return bytes;  // what lies behind the last byte is seen then
#else
        return bytes < least ? bytes : (bytes + page - 1) / page * page;
#endif
    }
};

}  // namespace gx
