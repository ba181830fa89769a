// The end of a contract program: on the double all tests; without a GPU those that need none.
#include <cstdio>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

int main(int argc, char** argv) {
    ::testing::InitGoogleTest(&argc, argv);
#ifndef GX_CUDA_DOUBLED
    int devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&devices);
    if (error != cudaSuccess || devices == 0) {
        cudaGetLastError();
        GTEST_FLAG_SET(filter, "NoDevice.*");
        if (RUN_ALL_TESTS() != 0) return 1;
        std::printf("skipped: no GPU (%s); what needs none holds\n", cudaGetErrorName(error));
        return 77;
    }
#endif
    return RUN_ALL_TESTS();
}
