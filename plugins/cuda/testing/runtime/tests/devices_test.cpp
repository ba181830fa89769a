// Devices, errors, injected faults and counters.
#include "double.hpp"

#include <cstring>
#include <thread>

namespace {

using namespace double_test;

class CudaDevices : public Double {};
class Faults : public Double {};

template <class F>
std::string error_of(F f) {
    try {
        f();
    } catch (const gx::Error& e) {
        return e.what();
    }
    return "";
}

TEST_F(CudaDevices, AreAsManyAsAsked) {
    int count = 0;
    ok(cudaGetDeviceCount(&count));
    EXPECT_EQ(count, 8);
    start({.devices = 2});
    ok(cudaGetDeviceCount(&count));
    EXPECT_EQ(count, 2);
    EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
}
TEST_F(CudaDevices, TheCurrentOneIsOfTheThread) {
    ok(cudaSetDevice(3));
    int other = -1, mine = -1;
    std::thread([&] { ok(cudaGetDevice(&other)); }).join();
    ok(cudaGetDevice(&mine));
    EXPECT_EQ(other, 0);
    EXPECT_EQ(mine, 3);
}
TEST_F(CudaDevices, PropertiesAndAttributesAgree) {
    cudaDeviceProp p{};
    ok(cudaGetDeviceProperties(&p, 1));
    int value = 0;
    ok(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 1));
    EXPECT_EQ(value, p.multiProcessorCount);
    ok(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 1));
    EXPECT_EQ(value, p.major);
    ok(cudaDeviceGetAttribute(&value, cudaDevAttrMaxBlocksPerMultiprocessor, 1));
    EXPECT_EQ(value, p.maxBlocksPerMultiProcessor);
    ok(cudaDeviceGetAttribute(&value, cudaDevAttrMaxRegistersPerMultiprocessor, 1));
    EXPECT_EQ(value, p.regsPerMultiprocessor);
    ok(cudaDeviceGetAttribute(&value, cudaDevAttrGlobalMemoryBusWidth, 1));
    EXPECT_EQ(value, p.memoryBusWidth);
    EXPECT_EQ(p.maxGridSize[0], 2147483647);
    EXPECT_EQ(p.warpSize, 32);
    EXPECT_EQ(cudaGetDeviceProperties(&p, 8), cudaErrorInvalidDevice);
    EXPECT_EQ(sentence_of([&] { cudaDeviceGetAttribute(&value, cudaDevAttrMaxTexture1DWidth, 0); }),
              "cudaDeviceGetAttribute: the double has no attribute 21. Add it to devices.cpp.");
}
TEST_F(CudaDevices, BusesTellDevicesApart) {
    gx::cuda_testing::reset({.devices = 2, .first_bus = 15});
    char text[16] = {};
    ok(cudaDeviceGetPCIBusId(text, sizeof text, 1));
    EXPECT_STREQ(text, "0000:10:00.0");
    int bus = 0;
    ok(cudaDeviceGetAttribute(&bus, cudaDevAttrPciBusId, 1));
    EXPECT_EQ(bus, 16);
    EXPECT_EQ(cudaDeviceGetPCIBusId(text, sizeof text, 2), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaDeviceGetPCIBusId(text, 12, 0), cudaErrorInvalidValue);
}
TEST_F(CudaDevices, AttributesAreThoseOfAnH100) {
    const auto value_of = [](cudaDeviceAttr attribute) {
        int value = -1;
        ok(cudaDeviceGetAttribute(&value, attribute, 2));
        return value;
    };
    EXPECT_EQ(value_of(cudaDevAttrMaxSharedMemoryPerBlock), 48 << 10);
    EXPECT_EQ(value_of(cudaDevAttrMaxSharedMemoryPerBlockOptin), 227 << 10);
    EXPECT_EQ(value_of(cudaDevAttrMaxSharedMemoryPerMultiprocessor), 228 << 10);
    EXPECT_EQ(value_of(cudaDevAttrTotalConstantMemory), 64 << 10);
    EXPECT_EQ(value_of(cudaDevAttrPciBusId), 3);
    EXPECT_EQ(value_of(cudaDevAttrClockRate), 1'980'000);
    EXPECT_EQ(value_of(cudaDevAttrMemoryClockRate), 2'619'000);
    EXPECT_EQ(value_of(cudaDevAttrGlobalMemoryBusWidth), 5120);
    EXPECT_EQ(value_of(cudaDevAttrMaxBlocksPerMultiprocessor), 32);
    EXPECT_EQ(value_of(cudaDevAttrMaxRegistersPerMultiprocessor), 64 << 10);
    EXPECT_EQ(value_of(cudaDevAttrReservedSharedMemoryPerBlock), 1 << 10);
    EXPECT_EQ(value_of(cudaDevAttrMaxPitch), 2147483647);
    EXPECT_EQ(value_of(cudaDevAttrTextureAlignment), 512);
    EXPECT_EQ(value_of(cudaDevAttrSurfaceAlignment), 512);
    EXPECT_EQ(value_of(cudaDevAttrTexturePitchAlignment), 32);
    EXPECT_EQ(value_of(cudaDevAttrSingleToDoublePrecisionPerfRatio), 2);
    EXPECT_EQ(value_of(cudaDevAttrComputeMode), cudaComputeModeDefault);
    EXPECT_EQ(value_of(cudaDevAttrMultiGpuBoardGroupID), 2);
    for (const auto has :
         {cudaDevAttrConcurrentKernels, cudaDevAttrCanMapHostMemory,
          cudaDevAttrHostRegisterSupported, cudaDevAttrStreamPrioritiesSupported,
          cudaDevAttrCooperativeLaunch, cudaDevAttrMemoryPoolsSupported, cudaDevAttrEccEnabled,
          cudaDevAttrGpuOverlap, cudaDevAttrGlobalL1CacheSupported,
          cudaDevAttrLocalL1CacheSupported, cudaDevAttrComputePreemptionSupported,
          cudaDevAttrCanUseHostPointerForRegisteredMem, cudaDevAttrClusterLaunch})
        EXPECT_EQ(value_of(has), 1);
    for (const auto has_not :
         {cudaDevAttrManagedMemory, cudaDevAttrIntegrated, cudaDevAttrPciDomainId,
          cudaDevAttrPciDeviceId, cudaDevAttrKernelExecTimeout, cudaDevAttrTccDriver,
          cudaDevAttrIsMultiGpuBoard, cudaDevAttrHostNativeAtomicSupported,
          cudaDevAttrPageableMemoryAccess, cudaDevAttrConcurrentManagedAccess,
          cudaDevAttrPageableMemoryAccessUsesHostPageTables,
          cudaDevAttrDirectManagedMemAccessFromHost, cudaDevAttrHostRegisterReadOnlySupported})
        EXPECT_EQ(value_of(has_not), 0);
}
TEST_F(CudaDevices, PrioritiesAreARange) {
    int least = -1, greatest = 1;
    ok(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    EXPECT_LE(greatest, least);
    cudaStream_t s{};
    EXPECT_EQ(cudaStreamCreateWithPriority(&s, 12345, 0), cudaErrorInvalidValue);
    const auto given = [&](int wanted) {
        ok(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, wanted));
        int priority = 99;
        ok(cudaStreamGetPriority(s, &priority));
        ok(cudaStreamDestroy(s));
        return priority;
    };
    for (int p = greatest; p <= least; ++p) EXPECT_EQ(given(p), p);
    EXPECT_EQ(given(greatest - 1), greatest);
    EXPECT_EQ(given(least + 1), least);
    int priority = 99;
    ok(cudaStreamGetPriority(new_stream(), &priority));
    EXPECT_EQ(priority, 0);
}
TEST_F(CudaDevices, StreamsGiveTheirFlagsAndDevice) {
    unsigned flags = 99;
    int device = -1;
    ok(cudaStreamGetFlags(new_stream(cudaStreamNonBlocking), &flags));
    EXPECT_EQ(flags, cudaStreamNonBlocking);
    ok(cudaSetDevice(2));
    cudaStream_t s{};
    ok(cudaStreamCreate(&s));
    ok(cudaStreamGetFlags(s, &flags));
    EXPECT_EQ(flags, cudaStreamDefault);
    ok(cudaSetDevice(1));
    ok(cudaStreamGetDevice(s, &device));
    EXPECT_EQ(device, 2);
    ok(cudaStreamGetDevice(nullptr, &device));
    EXPECT_EQ(device, 1) << "the default stream of the current device";
}
TEST_F(CudaDevices, ADeviceIsSynchronizedAlone) {
    bool ran[2] = {};
    enqueue_kernel(new_stream(), "a", [&] { ran[0] = true; });
    ok(cudaSetDevice(1));
    enqueue_kernel(new_stream(), "b", [&] { ran[1] = true; });
    ok(cudaDeviceSynchronize());
    EXPECT_FALSE(ran[0]);
    EXPECT_TRUE(ran[1]);
}
TEST_F(CudaDevices, AResetEndsWhatTheDeviceHas) {
    int* const x = device_memory(1);
    const cudaStream_t s = new_stream();
    const cudaEvent_t e = new_event();
    bool ran = false;
    enqueue_kernel(s, "dropped", [&] { ran = true; });
    ok(cudaDeviceReset());
    expect_clean();
    EXPECT_FALSE(ran);
    EXPECT_EQ(sentence_of([&] { cudaStreamQuery(s); }),
              "cudaStreamQuery: stream 1 of device 0 was destroyed by cudaDeviceReset.");
    (void)x, (void)e;
}
TEST_F(CudaDevices, AResetLeavesOtherDevices) {
    ok(cudaSetDevice(1));
    int* const pinned = pinned_memory(1);
    const cudaStream_t s = new_stream();
    bool ran = false;
    enqueue_kernel(s, "k", [&] { ran = true; });
    ok(cudaSetDevice(0));
    const cudaStream_t captured = new_stream();
    ok(cudaStreamBeginCapture(captured, cudaStreamCaptureModeRelaxed));
    ok(cudaDeviceReset());
    *pinned = 1;
    ok(cudaStreamSynchronize(s));
    EXPECT_TRUE(ran);
    ok(cudaFreeHost(pinned));
    ok(cudaStreamDestroy(s));
    expect_clean();
}
TEST_F(CudaDevices, EightThreadsUseADeviceEach) {
    in_every_order([] {
        std::vector<std::jthread> threads;
        std::vector<int> got(8, -1);
        for (int d = 0; d < 8; ++d)
            threads.emplace_back([d, &got] {
                ok(cudaSetDevice(d));
                const cudaStream_t s = new_stream();
                int *const x = device_memory(1), *const out = pinned_memory(1);
                ok(cudaMemsetAsync(x, 0, 4, s));
                for (int i = 0; i <= d; ++i) add(x, 1, s);
                copy(out, x, 1, s);
                ok(cudaStreamSynchronize(s));
                got[static_cast<std::size_t>(d)] = *out;
                ok(cudaFree(x));
                ok(cudaFreeHost(out));
                ok(cudaStreamDestroy(s));
            });
        threads.clear();
        for (int d = 0; d < 8; ++d) EXPECT_EQ(got[static_cast<std::size_t>(d)], d + 1);
        expect_clean();
    });
}

// ---- Errors ------------------------------------------------------------------------------------

TEST_F(CudaDevices, TheLastErrorIsGivenOnceAndPeekedAtOften) {
    EXPECT_EQ(cudaSetDevice(99), cudaErrorInvalidDevice);
    int device = 0;
    ok(cudaGetDevice(&device));
    EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    std::thread([] { EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess); }).join();
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}
TEST_F(CudaDevices, ErrorsHaveNames) {
    EXPECT_STREQ(cudaGetErrorName(cudaErrorNotReady), "cudaErrorNotReady");
    EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
    EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(12345)), "unrecognized error code");
}
TEST_F(CudaDevices, TheEnvironmentGivesSeedAndProgress) {
    ::setenv("GX_CUDA_SEED", "77", 1);
    ::setenv("GX_CUDA_PROGRESS", "random", 1);
    EXPECT_EQ(options_from_environment().seed, 77u);
    EXPECT_EQ(options_from_environment().progress, StreamProgress::random);
    ::setenv("GX_CUDA_SEED", "18446744073709551615", 1);
    EXPECT_EQ(options_from_environment().seed, ~std::uint64_t{0});
    for (const char* const wrong : {"7x", "", "-1", "+1", " 1", "18446744073709551616"}) {
        ::setenv("GX_CUDA_SEED", wrong, 1);
        EXPECT_EQ(error_of([] { (void)options_from_environment(); }),
                  "GX_CUDA_SEED is '" + std::string(wrong) +
                      "': give a whole number from 0 to 18446744073709551615.");
    }
    ::unsetenv("GX_CUDA_SEED");
    ::setenv("GX_CUDA_PROGRESS", "soon", 1);
    EXPECT_THROW((void)options_from_environment(), gx::Error);
    ::unsetenv("GX_CUDA_PROGRESS");
}

// ---- Faults ------------------------------------------------------------------------------------

TEST_F(Faults, NoDeviceAndAnOldDriver) {
    start({.devices = 0});
    int count = -1;
    void* p = nullptr;
    EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
    EXPECT_EQ(count, -1) << "it stays";
    EXPECT_EQ(cudaGetLastError(), cudaErrorNoDevice);
    EXPECT_EQ(cudaGetLastError(), cudaErrorNoDevice) << "so does the error";
    EXPECT_EQ(cudaMalloc(&p, 4), cudaErrorNoDevice);
    EXPECT_EQ(cudaSetDevice(0), cudaErrorNoDevice);
    start({.driver_version = 11020});
    EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
    EXPECT_EQ(cudaMalloc(&p, 4), cudaErrorInsufficientDriver);
    int driver = 0, runtime = 0;
    ok(cudaDriverGetVersion(&driver));
    ok(cudaRuntimeGetVersion(&runtime));
    EXPECT_EQ(driver, 11020);
    EXPECT_EQ(runtime, CUDART_VERSION);
}
TEST_F(Faults, TheKthAllocationFails) {
    void* p = nullptr;
    fail_allocation(3);
    ok(cudaMalloc(&p, 4));
    ok(cudaMallocHost(&p, 4));
    EXPECT_EQ(cudaMalloc(&p, 4), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
    ok(cudaMalloc(&p, 4));
}
TEST_F(Faults, ALaunchFails) {
    const cudaStream_t s = new_stream();
    int runs = 0;
    fail_launch(2);
    for (int i = 0; i < 3; ++i) {
        enqueue_kernel(s, "k", [&] { ++runs; });
        EXPECT_EQ(cudaGetLastError(), i == 1 ? cudaErrorLaunchOutOfResources : cudaSuccess);
    }
    ok(cudaStreamSynchronize(s));
    EXPECT_EQ(runs, 2);
}
TEST_F(Faults, OperationsAreCopiesSetsAndKernels) {
    const cudaStream_t s = new_stream();
    const cudaEvent_t e = new_event();
    fail_operation(1);
    ok(cudaEventRecord(e, s));
    ok(cudaLaunchHostFunc(s, [](void*) {}, nullptr));
    ok(cudaStreamSynchronize(s));
    enqueue_kernel(s, "k", [] {});
    EXPECT_EQ(cudaStreamSynchronize(s), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaEventRecord(e, s), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaStreamWaitEvent(s, e, 0), cudaErrorIllegalAddress);
    ok(cudaSetDevice(1));
    EXPECT_EQ(cudaLaunchHostFunc(s, [](void*) {}, nullptr), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaEventRecord(e, s), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaStreamWaitEvent(s, e, 0), cudaErrorIllegalAddress);
}
TEST_F(Faults, AnAsynchronousErrorStaysUntilTheReset) {
    in_every_order([] {
        const cudaStream_t s = new_stream();
        int runs = 0;
        fail_operation(2, cudaErrorECCUncorrectable);
        for (int i = 0; i < 3; ++i) enqueue_kernel(s, "k", [&] { ++runs; });
        EXPECT_EQ(cudaStreamSynchronize(s), cudaErrorECCUncorrectable);
        EXPECT_EQ(runs, 1);
        void* p = nullptr;
        EXPECT_EQ(cudaMalloc(&p, 4), cudaErrorECCUncorrectable);
        EXPECT_EQ(cudaGetLastError(), cudaErrorECCUncorrectable);
        EXPECT_EQ(cudaGetLastError(), cudaErrorECCUncorrectable) << "it stays";
        ok(cudaSetDevice(1));
        ok(cudaMalloc(&p, 4));
        ok(cudaFree(p));
        EXPECT_EQ(cudaSetDevice(0), cudaErrorECCUncorrectable);
        ok(cudaDeviceReset());
        ok(cudaMalloc(&p, 4));
        ok(cudaFree(p));
        expect_clean();
    });
}
TEST_F(Faults, ALostDeviceStaysLostAndTheOthersGoOn) {
    in_every_order([] {
        ok(cudaSetDevice(1));
        const cudaStream_t lost = new_stream();
        const cudaEvent_t e = new_event();
        enqueue_kernel(lost, "k", [] {});
        ok(cudaEventRecord(e, lost));
        lose_device(1);
        EXPECT_EQ(cudaStreamSynchronize(lost), cudaErrorDevicesUnavailable);
        EXPECT_EQ(cudaDeviceReset(), cudaErrorDevicesUnavailable);
        EXPECT_EQ(cudaGetLastError(), cudaErrorDevicesUnavailable);
        ok(cudaSetDevice(0));
        const cudaStream_t s = new_stream();
        bool ran = false;
        enqueue_kernel(s, "k", [&] { ran = true; });
        ok(cudaStreamSynchronize(s));
        EXPECT_TRUE(ran);
        EXPECT_EQ(cudaSetDevice(1), cudaErrorDevicesUnavailable);
    });
}
TEST_F(Faults, WhatAFailedDeviceHeldCanBeReleased) {
    int* const x = device_memory(1);
    const cudaStream_t s = new_stream();
    const cudaEvent_t e = new_event();
    ok(cudaMemsetAsync(x, 0, 4, s));
    ok(cudaEventRecord(e, s));
    fail_operation(1);
    EXPECT_EQ(cudaEventSynchronize(e), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaFree(x), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaEventDestroy(e), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaStreamDestroy(s), cudaErrorIllegalAddress);
    ok(cudaDeviceReset());
    expect_clean();
}

// ---- Counters ----------------------------------------------------------------------------------

TEST_F(CudaDevices, CallsAreCounted) {
    const RuntimeCounters mark = counters();
    const cudaStream_t s = new_stream(), t = new_stream();
    int *const x = device_memory(2), *const out = pinned_memory(2);
    const cudaEvent_t e = new_event();
    ok(cudaMemsetAsync(x, 0, 8, s));
    add(x, 1, s);
    copy(out, x, 2, s);
    ok(cudaEventRecord(e, s));
    ok(cudaStreamWaitEvent(t, e, 0));
    ok(cudaLaunchHostFunc(t, [](void*) {}, nullptr));
    while (cudaStreamQuery(t) == cudaErrorNotReady) {
    }
    ok(cudaFree(x));
    RuntimeCounters since = counters() - mark;
    EXPECT_GE(since.queries, 1);
    since.queries = 0;
    EXPECT_EQ(since, (RuntimeCounters{.allocations = 1,
                                      .frees = 1,
                                      .host_allocations = 1,
                                      .copies = 1,
                                      .copied_bytes = 8,
                                      .sets = 1,
                                      .kernels = 1,
                                      .host_functions = 1,
                                      .event_records = 1,
                                      .event_waits = 1,
                                      .operations = 4}));
    const RuntimeCounters before = counters();
    ok(cudaStreamSynchronize(s));
    ok(cudaEventSynchronize(e));
    ok(cudaDeviceSynchronize());
    EXPECT_EQ(counters() - before, (RuntimeCounters{.host_synchronizations = 3}));
}
TEST_F(CudaDevices, NowhereToWriteTheResultIsAnInvalidValue) {
    const cudaEvent_t e = new_event(0);
    const cudaStream_t s = new_stream();
    ok(cudaEventRecord(e, s));
    ok(cudaStreamSynchronize(s));
    for (const cudaError_t error :
         {cudaGetDeviceCount(nullptr), cudaGetDevice(nullptr),
          cudaDeviceGetAttribute(nullptr, cudaDevAttrWarpSize, 0),
          cudaGetDeviceProperties(nullptr, 0), cudaRuntimeGetVersion(nullptr),
          cudaDriverGetVersion(nullptr), cudaStreamCreateWithFlags(nullptr, 0),
          cudaStreamCreateWithPriority(nullptr, 0, 0), cudaStreamCreate(nullptr),
          cudaStreamGetPriority(s, nullptr), cudaStreamGetFlags(s, nullptr),
          cudaStreamGetDevice(s, nullptr), cudaEventCreate(nullptr),
          cudaEventCreateWithFlags(nullptr, cudaEventDefault), cudaEventElapsedTime(nullptr, e, e),
          cudaStreamIsCapturing(s, nullptr), cudaThreadExchangeStreamCaptureMode(nullptr)})
        EXPECT_EQ(error, cudaErrorInvalidValue);
    ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    EXPECT_EQ(cudaStreamEndCapture(s, nullptr), cudaErrorInvalidValue);
    cudaGraph_t graph{};
    ok(cudaStreamEndCapture(s, &graph));
    EXPECT_EQ(cudaGraphInstantiate(nullptr, graph, 0), cudaErrorInvalidValue);
    ok(cudaGraphDestroy(graph));
    ok(cudaEventDestroy(e));
    ok(cudaStreamDestroy(s));
    expect_clean();
}

}  // namespace
