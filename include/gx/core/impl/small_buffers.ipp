// SmallBuffers: free lists, one for each length.
#pragma once

#include <pthread.h>  // pthread_atfork
#if defined(__linux__)
#include <sys/mman.h>  // madvise
#endif

#include <array>    // lists
#include <bit>      // bit_width
#include <cstddef>  // byte
#include <cstdint>  // uintptr_t
#include <cstdlib>  // aligned_alloc
#include <mutex>    // mutex
#include <new>      // placement new, bad_alloc
#include <utility>  // exchange

#include <gx/core/detail/small_buffers.hpp>  // the declarations

namespace gx::detail {

namespace small_buffers {

class Lists;

/// At the beginning of each page: shared libraries may have lists of their own.
struct PageHead {
    Lists* owner;
};
struct FreeBlock {
    FreeBlock* next;
};

inline std::size_t list_of(std::size_t bytes) {
    return static_cast<std::size_t>(std::bit_width((bytes - 1) / SmallBuffers::least));
}

/// Lives as long as the program: buffers of static objects are released late. Memory is the C
/// library's: a program's own `operator new` may be no memory of this process alone.
class Lists {
public:
    static Lists& of_program() {
        alignas(Lists) static std::byte place[sizeof(Lists)];
        static Lists* const lists = [] {
            auto* const made = new (place) Lists;
            ::pthread_atfork([] { of_program().mutex_.lock(); },
                             [] { of_program().mutex_.unlock(); },
                             [] { of_program().mutex_.unlock(); });
            return made;
        }();
        return *lists;
    }
    void* take(std::size_t list) {
        const std::lock_guard lock(mutex_);
        if (FreeBlock* const block = free_[list]) {
            free_[list] = block->next;
            return block;
        }
        const std::size_t bytes = SmallBuffers::least << list;
        if (left_ < bytes) begin_page();
        left_ -= bytes;
        return std::exchange(next_, next_ + bytes);
    }
    void give(void* memory, std::size_t list) noexcept {
        const std::lock_guard lock(mutex_);
        free_[list] = new (memory) FreeBlock{free_[list]};
    }

private:
    void begin_page() {
        constexpr std::size_t page = SmallBuffers::page, head = SmallBuffers::alignment_most;
        void* const memory = std::aligned_alloc(page, page);
        if (memory == nullptr) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
        (void)::madvise(memory, page, MADV_HUGEPAGE);  // a wish
#endif
        new (memory) PageHead{this};
        next_ = static_cast<std::byte*>(memory) + head;
        left_ = page - head;
    }

    std::mutex mutex_;
    std::array<FreeBlock*, 6> free_{};
    std::byte* next_ = nullptr;  ///< in the newest page
    std::size_t left_ = 0;
};
static_assert(SmallBuffers::least << 5 == SmallBuffers::most);

}  // namespace small_buffers

GX_DECL void* SmallBuffers::allocate(std::size_t bytes) {
    return small_buffers::Lists::of_program().take(small_buffers::list_of(bytes));
}
GX_DECL void SmallBuffers::release(void* block, std::size_t bytes) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(block);
    auto* const head = reinterpret_cast<small_buffers::PageHead*>(address / page * page);
    head->owner->give(block, small_buffers::list_of(bytes));
}

}  // namespace gx::detail
