// What tests of cuDNN's double include, where they run on a GPU: nothing is set or counted.
#pragma once

#include <cstdint>  // int64_t, uint64_t
#include <cstdlib>  // setenv

namespace gx::cuda_testing {

enum class CudnnGpu : unsigned char { v100, h100 };
struct CudnnOptions {
    CudnnGpu gpu = CudnnGpu::h100;
    std::uint64_t seed = 1;
};
/// Tests keep no plans, unless they are told where.
inline void reset_cudnn(const CudnnOptions&) { ::setenv("GX_CACHE", "", 0); }
struct CudnnCounters {
    std::int64_t nondeterministic_executions = 0, tf32_executions = 0;
};
[[nodiscard]] inline CudnnCounters cudnn_counters() { return {}; }

}  // namespace gx::cuda_testing
