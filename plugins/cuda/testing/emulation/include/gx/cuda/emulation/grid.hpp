// Emulated grid: threads of a kernel's blocks as fibers, ordered by a seed.
#pragma once

#include <concepts>         // integral
#include <cstddef>          // size_t
#include <cstdint>          // uint32_t
#include <functional>       // function
#include <source_location>  // lines of kernels
#include <string>           // sentences

#include <cuda_runtime_api.h>  // dim3, uint3

// Errors of all: a call outside of run_grid is undefined. What a kernel does wrong goes to
// cuda_testing::misuse() as one sentence with the kernel, block, thread and source line.
namespace gx::cuda::emulation {

inline constexpr unsigned warp_lanes = 32;

/// Position of the running thread in its launch.
struct Place {
    uint3 thread{}, block{};
    dim3 threads{}, blocks{};
};
[[nodiscard]] Place place();  // by value: a sanitizer sees no access to the scheduler's memory

[[nodiscard]] inline unsigned lane_index() { return place().thread.x % warp_lanes; }

/// An index with the place in the source where it was used.
struct Index {
    template <std::integral I>
    Index(I i, std::source_location where = std::source_location::current())  // NOLINT
        : value(static_cast<std::int64_t>(i)), at(where) {}
    std::int64_t value;
    std::source_location at;
};
[[noreturn]] void out_of_range(const Index& i, std::int64_t size, const char* memory);
/// Of a span whose memory is not aligned to `bytes`, at an access.
[[noreturn]] void misaligned(const Index& i, std::size_t bytes);
/// Of a part of a span, which the host may take, too.
[[noreturn]] void out_of_span(const Index& first, std::int64_t count, std::int64_t size);
/// Reports any other mistake of the running thread.
[[noreturn]] void misused(const std::source_location& at, const std::string& what);

// ---- Barriers and exchanges -------------------------------------------------------------------

/// Waits for all threads of the block.
void sync_block(const std::source_location& at);
/// Waits for the lanes of `mask`, and orders the accesses of these.
void sync_warp(std::uint32_t mask, const std::source_location& at);
// Exchanges and votes order no memory: CUDA C++ Programming Guide, "Warp Shuffle Functions", "Warp
// Vote Functions".

/// Waits for the lanes of `mask`, each with 8 bytes; returns those of lane `from`.
std::uint64_t exchange(std::uint32_t mask, std::uint64_t mine, unsigned from,
                       const std::source_location& at);
/// Waits for the lanes of `mask`; bit i of the result is set where lane i brought true.
std::uint32_t ballot(std::uint32_t mask, bool mine, const std::source_location& at);

// ---- Shared memory ----------------------------------------------------------------------------

inline constexpr std::size_t shared_limit_bytes = 48 << 10, shared_variables_max = 16;

/// The block's variable of this declaration, which an address stands for: one for each of the types
/// that a template declares it with. Not written yet. Errors: other bytes than before.
[[nodiscard]] void* shared_bytes(const void* declaration, std::size_t bytes,
                                 const std::source_location& at);
enum class SharedUse : unsigned char { reads, writes, atomic };
/// Checks an access to the element that begins there: that what is read was written, and that a
/// barrier of both threads lies between conflicting accesses. Atomic accesses conflict with reads
/// and writes, and not with each other.
void use_shared(const void* begin, SharedUse use, const Index& i);

// ---- Runs -------------------------------------------------------------------------------------

inline constexpr unsigned threads_max = 1024, blocks_max = 0x7fffffff;
[[nodiscard]] constexpr bool is_launchable(unsigned blocks, unsigned threads) {
    return blocks > 0 && blocks <= blocks_max && threads > 0 && threads <= threads_max;
}

/// Runs all threads of all blocks now: blocks one after the other, in an order that the seed
/// decides; a block's threads until each waits or ends, in an order drawn anew after each barrier.
/// Errors: a launch that a GPU would refuse; threads that part at a barrier.
void run_grid(const char* kernel, dim3 blocks, dim3 threads, const std::function<void()>& thread);

/// Orders of blocks and threads follow from it.
void seed(std::uint64_t value);

/// Bytes of the elements that kernels have indexed in spans, since the last call.
struct Traffic {
    std::int64_t read = 0;     ///< in spans of const elements
    std::int64_t written = 0;  ///< in others, whatever a kernel does there
};
[[nodiscard]] Traffic take_traffic();
void count_traffic(std::size_t bytes, bool written);

/// Whether ThreadSanitizer checks this program: then it reports races between threads.
[[nodiscard]] bool under_thread_sanitizer();

}  // namespace gx::cuda::emulation
