// Conversions against memcpy: bytes read and written a second, in cache and beyond it.
// Run:    gx_bench_convert --benchmark_filter=...
// Prints: one line per loop, element, Simd and length; compare with the memcpy of equal traffic.
#include <gx/core/convert.hpp>

#include <benchmark/benchmark.h>

#include <cstring>
#include <string>
#include <vector>

#include "machine.hpp"  // cpu_name

namespace {

using gx::Simd;

constexpr std::int64_t in_cache = 16 << 10, in_memory = 16 << 20;  // elements

// Reads and writes as many bytes as one conversion of `count` elements: 6 each.
void memcpy_of_equal_traffic(benchmark::State& state) {
    const auto bytes = static_cast<std::size_t>(state.range(0) * 3);
    std::vector<char> from(bytes, 1), to(bytes);
    for (auto _ : state) {
        std::memcpy(to.data(), from.data(), bytes);
        benchmark::ClobberMemory();
    }
    state.SetBytesProcessed(state.iterations() * state.range(0) * 6);
}
BENCHMARK(memcpy_of_equal_traffic)->Arg(in_cache)->Arg(in_memory);

template <class E>
struct Spans {
    explicit Spans(benchmark::State& state)
        : simd(static_cast<Simd>(state.range(1))),
          wide(static_cast<std::size_t>(state.range(0)), 0.7f),
          narrow(wide.size(), E::encode(0.3f)),
          received(wide.size(), E::encode(1e-9f)) {
        state.SetLabel(std::string(to_string(simd)));
    }
    Simd simd;
    std::vector<float> wide;
    std::vector<typename E::storage> narrow, received;
};

template <class E>
void encode(benchmark::State& state) {
    Spans<E> s(state);
    for (auto _ : state) {
        gx::encode<E>(s.wide, s.narrow, s.simd);
        benchmark::ClobberMemory();
    }
    state.SetBytesProcessed(state.iterations() * state.range(0) * 6);
}

template <class E>
void decode(benchmark::State& state) {
    Spans<E> s(state);
    for (auto _ : state) {
        gx::decode<E>(s.narrow, s.wide, s.simd);
        benchmark::ClobberMemory();
    }
    state.SetBytesProcessed(state.iterations() * state.range(0) * 6);
}

template <class E>
void accumulate(benchmark::State& state) {
    Spans<E> s(state);
    for (auto _ : state) {
        gx::accumulate<E>(s.received, s.narrow, s.simd);
        benchmark::ClobberMemory();
    }
    const auto element = static_cast<std::int64_t>(sizeof(typename E::storage));
    state.SetBytesProcessed(state.iterations() * state.range(0) * 3 * element);
}

void each_simd(benchmark::internal::Benchmark* b) {
    for (const std::int64_t count : {in_cache, in_memory})
        for (const Simd simd : {Simd::portable, Simd::avx2, Simd::avx512, Simd::avx512_bf16})
            if (gx::supported(simd)) b->Args({count, static_cast<std::int64_t>(simd)});
}
BENCHMARK(encode<gx::fp16>)->Apply(each_simd);
BENCHMARK(encode<gx::bf16>)->Apply(each_simd);
BENCHMARK(decode<gx::fp16>)->Apply(each_simd);
BENCHMARK(decode<gx::bf16>)->Apply(each_simd);
BENCHMARK(accumulate<gx::fp16>)->Apply(each_simd);
BENCHMARK(accumulate<gx::bf16>)->Apply(each_simd);
BENCHMARK(accumulate<gx::fp32>)->Apply(each_simd);

}  // namespace

int main(int argc, char** argv) {
    benchmark::AddCustomContext("cpu", gx::bench::cpu_name());
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
    benchmark::RunSpecifiedBenchmarks();
}
