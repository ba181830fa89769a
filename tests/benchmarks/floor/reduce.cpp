// The floor of an all-reduce among threads: one pass over all ranks' buffers, without any library.
// Run:     gx_floor_reduce, with lines "RANKS ELEMENTS TYPE REPEATS" on stdin; TYPE: fp32 or bf16
// Prints:  for each line the microseconds of each repeat, on one line, and the KiB of the pages of
//          the first rank's buffer
//
// Rank r sums slice r of all buffers and writes the sum into all of them, between two barriers that
// spin, or yield where there are more ranks than cores. So each buffer is read once and written
// once, which an all-reduce in place cannot do without. Before each repeat every rank rewrites its
// own buffer. Threads are bound to cores, buffers lie on 2 MiB pages where the kernel has them.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "../large_pages.hpp"
#include "../reduce/pages.hpp"

namespace {

using Clock = std::chrono::steady_clock;

class Barrier {
public:
    Barrier(int ranks, bool spins) : ranks_(ranks), spins_(spins ? 400 : 0) {}
    void wait() {
        const int phase = phase_.load(std::memory_order_relaxed);
        if (come_.fetch_add(1, std::memory_order_acq_rel) == ranks_ - 1) {
            come_.store(0, std::memory_order_relaxed);
            phase_.store(phase + 1, std::memory_order_release);
            return;
        }
        for (int k = 0; phase_.load(std::memory_order_acquire) == phase; ++k) {
            if (k >= spins_) sched_yield(), k = 0;
            else __builtin_ia32_pause();
        }
    }

private:
    int ranks_, spins_;
    alignas(128) std::atomic<int> come_{0};
    alignas(128) std::atomic<int> phase_{0};
};

// 16 numbers, which the compiler cuts to what the processor has. 32 in bf16 are one vector too: the
// even ones in the lower halves of its lanes, the odd ones in the upper halves.
using Floats = float __attribute__((vector_size(64)));
using Words = std::uint32_t __attribute__((vector_size(64)));
using StoredFloats = float __attribute__((vector_size(64), aligned(4), may_alias));
using StoredHalves = std::uint16_t __attribute__((vector_size(64), aligned(2), may_alias));

inline void load(const float* from, Floats& x, Floats& y) {
    x = *reinterpret_cast<const StoredFloats*>(from);
    y = *reinterpret_cast<const StoredFloats*>(from + 16);
}
inline void store(float* to, const Floats& x, const Floats& y) {
    *reinterpret_cast<StoredFloats*>(to) = x;
    *reinterpret_cast<StoredFloats*>(to + 16) = y;
}
inline void load(const std::uint16_t* from, Floats& even, Floats& odd) {
    const auto both = reinterpret_cast<Words>(*reinterpret_cast<const StoredHalves*>(from));
    even = reinterpret_cast<Floats>(both << 16);
    odd = reinterpret_cast<Floats>(both & 0xffff0000u);
}
inline void store(std::uint16_t* to, const Floats& even, const Floats& odd) {  // to nearest
#if defined(__AVX512BF16__) && defined(__AVX512BW__)                           // normal numbers
    Words both;
    asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(both) : "v"(odd), "v"(even));
    const auto b = reinterpret_cast<StoredHalves>(both);
    *reinterpret_cast<StoredHalves*>(to) =
        __builtin_shufflevector(b, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24,
                                9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#else  // finite numbers
    const auto upper = [](const Floats& x) {
        const Words bits = reinterpret_cast<Words>(x);
        return bits + (((bits >> 16) & 1u) + 0x7fffu);
    };
    *reinterpret_cast<StoredHalves*>(to) =
        reinterpret_cast<StoredHalves>((upper(even) >> 16) | (upper(odd) & 0xffff0000u));
#endif
}

template <int ranks, class T>
void sum_slice(T* const* all, std::size_t begin, std::size_t end) {
    T* buffers[ranks];  // whose addresses no store can have: they stay in registers
    std::copy_n(all, ranks, buffers);
    for (std::size_t i = begin; i < end; i += 32) {
        Floats x, y, u, v;
        load(buffers[0] + i, x, y);
        for (int r = 1; r < ranks; ++r) load(buffers[r] + i, u, v), x += u, y += v;
        for (int r = 0; r < ranks; ++r) store(buffers[r] + i, x, y);
    }
}
template <class T>
auto slice_of(int ranks) {
    return ranks == 2 ? sum_slice<2, T> : ranks == 4 ? sum_slice<4, T> : sum_slice<8, T>;
}

template <class T>
void measure(int ranks, std::size_t elements, T one, T sum, int repeats) {
    const auto n = static_cast<std::size_t>(ranks);
    const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
    const std::size_t padded = (elements + 31) / 32 * 32, bytes = padded * sizeof(T);
    const std::size_t share = (padded / 32 + n - 1) / n * 32;
    Barrier barrier(ranks, n <= cores);
    std::vector<T*> buffers(n);
    std::vector<std::thread> threads;
    for (std::size_t r = 0; r < n; ++r) {
        threads.emplace_back([&, r] {
            cpu_set_t set;
            CPU_ZERO(&set);
            CPU_SET(r % cores, &set);
            sched_setaffinity(0, sizeof(set), &set);
            void* const memory = gx::bench::on_large_pages(bytes);
            buffers[r] = static_cast<T*>(memory);
            const std::size_t begin = std::min(padded, share * r),
                              end = std::min(padded, begin + share);
            for (int i = -2; i < repeats; ++i) {
                std::fill_n(buffers[r], padded, one);
                barrier.wait();
                const auto from = Clock::now();
                barrier.wait();
                slice_of<T>(ranks)(buffers.data(), begin, end);
                barrier.wait();
                const std::chrono::duration<double, std::micro> took = Clock::now() - from;
                if (r == 0 && i >= 0) std::printf("%.3f ", took.count());
                if (buffers[r][0] != sum || buffers[r][elements - 1] != sum) std::abort();
            }
            barrier.wait();
            if (r == 0) std::printf("%d\n", gx::bench::pages_kib(memory, bytes));
            std::free(memory);
        });
    }
    for (std::thread& t : threads) t.join();
    std::fflush(stdout);
}

}  // namespace

int main() {
    int ranks = 0, repeats = 0;
    std::size_t elements = 0;
    char type[8] = "";
    while (std::scanf("%d %zu %7s %d", &ranks, &elements, type, &repeats) == 4) {
        if ((ranks != 2 && ranks != 4 && ranks != 8) || elements == 0) return 1;
        constexpr std::uint16_t one = 0x3f80;  // in bf16
        const int power = ranks == 2 ? 1 : ranks == 4 ? 2 : 3;
        if (std::strcmp(type, "bf16") == 0)
            measure<std::uint16_t>(ranks, elements, one,
                                   static_cast<std::uint16_t>(one + (power << 7)), repeats);
        else measure<float>(ranks, elements, 1.0f, static_cast<float>(ranks), repeats);
    }
}
