// The emulated grid that kernels' tests seed; where they are built for a GPU, the check that there
// is one.
#pragma once

#if __has_include(<gx/cuda/emulation/grid.hpp>)
#include <gx/cuda/emulation/grid.hpp>
#else
#include <cstdint>  // uint64_t
#include <cstdio>   // printf

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

namespace gx::cuda::emulation {

inline void seed(std::uint64_t) {}  // the hardware decides

/// Without a GPU all tests of the program are skipped, and ctest reads why.
class NeedsGpu : public ::testing::Environment {
public:
    void SetUp() override {
        int count = 0;
        const cudaError_t error = cudaGetDeviceCount(&count);
        if (error == cudaSuccess && count > 0) return;
        std::printf("skipped: no GPU (%s)\n", cudaGetErrorName(error));
        GTEST_SKIP();
    }
};
inline const auto* const needs_gpu = ::testing::AddGlobalTestEnvironment(new NeedsGpu);

}  // namespace gx::cuda::emulation
#endif
