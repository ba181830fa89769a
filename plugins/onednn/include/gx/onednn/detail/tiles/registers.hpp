// registers: AMX's tile registers, and the same in C++ for CPUs and tests without them.
#pragma once

#include <array>    // emulated registers
#include <cstddef>  // byte
#include <cstdint>  // uint16_t
#include <cstring>  // memcpy

#include <gx/onednn/detail/numbers.hpp>  // Bf16, widen

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>  // SYS_arch_prctl
#include <unistd.h>       // syscall
#define GX_ONEDNN_HAS_TILES 1
#endif

namespace gx::onednn::detail {

// Eight registers of 16 rows of 64 bytes: 16 x 16 floats, or 16 x 32 bf16. Rows lie one behind the
// other in memory. multiply_add<C, A, B>() adds to float (m, n) of C the products of row m of A
// with column n of B; row j of B has elements 2 j and 2 j + 1 of column n at 2 n and 2 n + 1.
// Order: e over the even elements of a row, o over the odd ones, each a chain of fused
//        multiply-adds from 0, then C + (e + o).
// Source: TDPBF16PS, Intel 64 and IA-32 Architectures Software Developer's Manual; the order was
//         found by comparing 200,000 random cases.

#if defined(GX_ONEDNN_HAS_TILES)
/// AMX. By assembler: the intrinsics of g++ 12 name neither registers nor memory as changed.
/// configure() comes first in each call, since oneDNN's kernels leave other shapes behind.
struct AmxTiles {
    /// Asks Linux for the registers, for all threads of the process.
    [[nodiscard]] static bool allowed() {
        constexpr long request = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
        static const bool granted = ::syscall(SYS_arch_prctl, request, tile_data) == 0;
        return granted;
    }
    static void configure() {
        struct alignas(64) Shapes {
            std::uint8_t palette = 1, start = 0, reserved[14]{};
            std::uint16_t row_bytes[16]{64, 64, 64, 64, 64, 64, 64, 64};
            std::uint8_t rows[16]{16, 16, 16, 16, 16, 16, 16, 16};
        };
        static constexpr Shapes shapes{};
        static_assert(sizeof(Shapes) == 64);
        asm volatile("ldtilecfg %0" : : "m"(shapes));
    }
    static void release() { asm volatile("tilerelease" ::: "memory"); }
    template <int T>
    GX_ONEDNN_INLINE static void zero() {
        asm volatile("tilezero %%tmm%c0" : : "i"(T));
    }
    template <int T>
    GX_ONEDNN_INLINE static void load(const void* rows) {
        asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(rows), "r"(64L), "i"(T) : "memory");
    }
    template <int T>
    GX_ONEDNN_INLINE static void store(float* rows) {
        asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(rows), "r"(64L), "i"(T) : "memory");
    }
    template <int C, int A, int B>
    GX_ONEDNN_INLINE static void multiply_add() {
        asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
    }
};
#endif

/// The same numbers for finite normal ones, slowly: AMX takes subnormal numbers as 0.
struct EmulatedTiles {
    static void configure() {}
    static void release() {}
    template <int T>
    static void zero() {
        registers()[T] = {};
    }
    template <int T>
    static void load(const void* rows) {
        std::memcpy(registers()[T].data(), rows, bytes);
    }
    template <int T>
    static void store(float* rows) {
        std::memcpy(rows, registers()[T].data(), bytes);
    }
    template <int C, int A, int B>
    static void multiply_add() {
        std::array<Bf16, 512> a, b;
        std::array<float, 256> c;
        std::memcpy(a.data(), registers()[A].data(), bytes);
        std::memcpy(b.data(), registers()[B].data(), bytes);
        std::memcpy(c.data(), registers()[C].data(), bytes);
        for (std::size_t m = 0; m < 16; ++m)
            for (std::size_t n = 0; n < 16; ++n) {
                float even = 0, odd = 0;
                for (std::size_t j = 0; j < 16; ++j) {
                    const Bf16 *x = &a[m * 32 + 2 * j], *y = &b[j * 32 + 2 * n];
                    even += widen(x[0]) * widen(y[0]);  // exact, as in a fused one
                    odd += widen(x[1]) * widen(y[1]);
                }
                c[m * 16 + n] += even + odd;
            }
        std::memcpy(registers()[C].data(), c.data(), bytes);
    }

private:
    static constexpr std::size_t bytes = 1024;
    using Register = std::array<std::byte, bytes>;
    static std::array<Register, 8>& registers() {
        static thread_local std::array<Register, 8> all{};
        return all;
    }
};

#if !defined(GX_ONEDNN_HAS_TILES)
struct AmxTiles : EmulatedTiles {
    [[nodiscard]] static bool allowed() { return false; }
};
#endif

}  // namespace gx::onednn::detail
