// Replaces operator new of a program by one that reports each allocation. For one source of a
// program, which defines note_allocation(). What malloc() is asked for elsewhere, as by C
// libraries, is not seen.
#pragma once

#include <cstddef>  // size_t
#include <cstdlib>  // malloc
#include <new>      // bad_alloc

namespace testing_support {

/// Called before each allocation, on the thread that asks for it. `caller`: an address within the
/// function that does. It must not allocate without ending its own recursion.
void note_allocation(std::size_t bytes, const void* caller) noexcept;

}  // namespace testing_support

// Of the others, those of arrays call these. Inlined, g++ 12 takes new and delete for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
    testing_support::note_allocation(bytes, __builtin_return_address(0));
    if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
    throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
    testing_support::note_allocation(bytes, __builtin_return_address(0));
    return std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t align) {
    testing_support::note_allocation(bytes, __builtin_return_address(0));
    const auto a = static_cast<std::size_t>(align);
    if (void* p = std::aligned_alloc(a, (bytes + a - 1) / a * a)) return p;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
    std::free(p);
}
