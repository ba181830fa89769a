// What is believed of the CUDA runtime. One program for the double and for libcudart: what holds on
// the double and fails on a GPU is a fault of the double. Statements cite NVIDIA's CUDA Runtime API
// manual where they rest on it; those marked "observed" do not.
// Run:  contract.real   exits with 77 (skipped) without a GPU, after what needs none
//       contract.late, contract.eager, contract.random   on the double
#include <gtest/gtest.h>

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#ifdef GX_CUDA_DOUBLED
#include <gx/cuda_testing/runtime.hpp>
#endif

namespace {

constexpr std::size_t count = 1000;  // numbers in a buffer
constexpr std::size_t bytes = count * sizeof(int);

#define OK(call) ASSERT_EQ((call), cudaSuccess)

/// A call that the manual refuses with `code`. The double ends such a call with a sentence.
template <class F>
void expect_refused(cudaError_t code, F f) {
#ifdef GX_CUDA_DOUBLED
    (void)code;
    EXPECT_THROW(f(), gx::cuda_testing::Misuse);
#else
    EXPECT_STREQ(cudaGetErrorName(f()), cudaGetErrorName(code));
    cudaGetLastError();
#endif
}

/// A call that the manual leaves undefined: the runtime may take it, and the double reports it.
template <class F>
void expect_undefined(F f) {
#ifdef GX_CUDA_DOUBLED
    EXPECT_THROW(f(), gx::cuda_testing::Misuse);
#else
    (void)f();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    cudaGetLastError();
#endif
}

/// Two streams, an event, device buffers and pinned buffers.
class Runtime : public ::testing::Test {
protected:
    void SetUp() override {
#ifdef GX_CUDA_DOUBLED
        auto o = gx::cuda_testing::options_from_environment();
        o.check_at_exit = false;
        gx::cuda_testing::reset(o);
#endif
        OK(cudaSetDevice(0));
        cudaGetLastError();
        for (cudaStream_t* s : {&s_, &t_}) OK(cudaStreamCreateWithFlags(s, cudaStreamNonBlocking));
        OK(cudaEventCreateWithFlags(&e_, cudaEventDisableTiming));
        for (int** p : {&x_, &y_}) OK(cudaMalloc(reinterpret_cast<void**>(p), bytes));
        for (int** p : {&in_, &out_}) OK(cudaMallocHost(reinterpret_cast<void**>(p), bytes));
        for (std::size_t i = 0; i < count; ++i) in_[i] = static_cast<int>(i), out_[i] = -1;
    }
    void TearDown() override {
        cudaSetDevice(0);
        for (void* p : {x_, y_}) cudaFree(p);
        for (void* p : {in_, out_}) cudaFreeHost(p);
        for (const cudaStream_t s : {s_, t_}) cudaStreamDestroy(s);
        cudaEventDestroy(e_);
        cudaGetLastError();
    }
    static void to_device(int* to, const int* from, cudaStream_t s) {
        OK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, s));
    }
    static void to_host(int* to, const int* from, cudaStream_t s) {
        OK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, s));
    }
    void begin() { OK(cudaStreamBeginCapture(s_, cudaStreamCaptureModeThreadLocal)); }
    cudaGraphExec_t end() {
        cudaGraph_t graph{};
        cudaGraphExec_t executable{};
        EXPECT_EQ(cudaStreamEndCapture(s_, &graph), cudaSuccess);
        EXPECT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
        EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
        return executable;
    }
    /// Ends a capture whatever it has come to, as a program must behind an error.
    void abandon() {
#ifndef GX_CUDA_DOUBLED
        cudaGraph_t graph{};
        if (cudaStreamEndCapture(s_, &graph) == cudaSuccess) cudaGraphDestroy(graph);
        cudaGetLastError();
#endif
    }

    cudaStream_t s_{}, t_{};
    cudaEvent_t e_{};
    int *x_ = nullptr, *y_ = nullptr, *in_ = nullptr, *out_ = nullptr;
};

// ---- Device Management, Error Handling ------------------------------------------------------

TEST_F(Runtime, HasDevicesFromZeroUpAndRefusesOthers) {
    int devices = 0, current = -1;
    OK(cudaGetDeviceCount(&devices));
    EXPECT_GE(devices, 1);
    EXPECT_EQ(cudaSetDevice(devices), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
    OK(cudaGetDevice(&current));
    EXPECT_EQ(current, 0);
}
TEST_F(Runtime, EveryThreadBeginsWithDeviceZeroAndItsOwnLastError) {
    EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
    int current = -1;
    cudaError_t last = cudaErrorUnknown;
    std::thread([&] {
        cudaGetDevice(&current);
        last = cudaPeekAtLastError();
    }).join();
    EXPECT_EQ(current, 0);
    EXPECT_EQ(last, cudaSuccess);
    EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice) << "a peek leaves it";
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}
TEST_F(Runtime, SuccessDoesNotClearTheLastError) {
    EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
    OK(cudaStreamSynchronize(s_));
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
}
TEST_F(Runtime, ReportsTheSameInPropertiesAndAttributes) {
    static cudaDeviceProp p;
    OK(cudaGetDeviceProperties(&p, 0));
    const auto attribute = [](cudaDeviceAttr a) {
        int value = -1;
        EXPECT_EQ(cudaDeviceGetAttribute(&value, a, 0), cudaSuccess);
        return value;
    };
    char bus[16] = {};
    OK(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
    EXPECT_EQ(std::strtol(bus + 5, nullptr, 16), attribute(cudaDevAttrPciBusId)) << bus;
    EXPECT_EQ(attribute(cudaDevAttrWarpSize), p.warpSize);
    EXPECT_EQ(attribute(cudaDevAttrComputeCapabilityMajor), p.major);
    EXPECT_EQ(attribute(cudaDevAttrMultiProcessorCount), p.multiProcessorCount);
    EXPECT_EQ(attribute(cudaDevAttrMaxThreadsPerBlock), 1024);
    EXPECT_EQ(attribute(cudaDevAttrUnifiedAddressing), 1);
    EXPECT_GT(p.totalGlobalMem, bytes);
}
TEST_F(Runtime, TakesPrioritiesFromARangeThatEndsAtZero) {
    int least = -1, greatest = 1;
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    EXPECT_EQ(least, 0);
    EXPECT_LE(greatest, least);
    cudaStream_t s{};
    int priority = 1, device = -1;
    unsigned flags = 0;
    OK(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, greatest - 100));
    OK(cudaStreamGetPriority(s, &priority));
    OK(cudaStreamGetFlags(s, &flags));
    OK(cudaStreamGetDevice(s, &device));
    EXPECT_EQ(priority, greatest);
    EXPECT_EQ(flags, cudaStreamNonBlocking);
    EXPECT_EQ(device, 0);
    OK(cudaStreamDestroy(s));
}

// ---- Memory Management ----------------------------------------------------------------------

TEST_F(Runtime, AlignsDeviceMemoryTo256Bytes) {
    for (const std::size_t n : {1u, 3u, 1000u}) {
        void* p = nullptr;
        OK(cudaMalloc(&p, n));
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % 256, 0u);
        OK(cudaFree(p));
    }
}
TEST_F(Runtime, TakesNothingForNoBytes) {  // observed
    void* p = this;
    OK(cudaMalloc(&p, 0));
    EXPECT_EQ(p, nullptr);
    OK(cudaFree(nullptr));
    OK(cudaFreeHost(nullptr));
}
TEST_F(Runtime, RefusesMoreMemoryThanThereIsAndGoesOn) {
    std::size_t free = 0, total = 0;
    OK(cudaMemGetInfo(&free, &total));
    EXPECT_LE(free, total);
    void* p = nullptr;
    EXPECT_EQ(cudaMalloc(&p, 2 * total), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
    OK(cudaMalloc(&p, 1000));
    OK(cudaFree(p));
}
TEST_F(Runtime, RefusesToFreeTwice) {
    expect_refused(cudaErrorInvalidValue, [&] {
        void* p = nullptr;
        cudaMalloc(&p, 1000);
        cudaFree(p);
        return cudaFree(p);
    });
}
TEST_F(Runtime, RegistersMemoryOnce) {
    std::vector<int> mine(4096, 7);
    OK(cudaHostRegister(mine.data(), 4096 * sizeof(int), cudaHostRegisterDefault));
    EXPECT_EQ(cudaHostRegister(mine.data(), 4096 * sizeof(int), cudaHostRegisterDefault),
              cudaErrorHostMemoryAlreadyRegistered);
    cudaGetLastError();
    to_device(x_, mine.data(), s_);
    to_host(out_, x_, s_);
    OK(cudaStreamSynchronize(s_));
    EXPECT_EQ(out_[count - 1], 7);
    OK(cudaHostUnregister(mine.data()));
}
TEST_F(Runtime, CopiesAndSetsInTheOrderOfAStream) {
    to_device(x_, in_, s_);
    OK(cudaMemcpyAsync(y_, x_, bytes, cudaMemcpyDeviceToDevice, s_));
    OK(cudaMemsetAsync(x_, 0xff, bytes, s_));
    OK(cudaMemsetAsync(y_, 0x102, 4, s_));  // the low byte counts
    to_host(out_, y_, s_);
    OK(cudaStreamSynchronize(s_));
    EXPECT_EQ(out_[0], 0x02020202);
    EXPECT_EQ(out_[1], 1);
    EXPECT_EQ(out_[count - 1], static_cast<int>(count) - 1);
}
TEST_F(Runtime, CopiesPageableMemoryWhileTheHostWaits) {
    std::vector<int> mine(count, 3), back(count, 0);
    OK(cudaMemcpy(x_, mine.data(), bytes, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(back.data(), x_, bytes, cudaMemcpyDefault));
    EXPECT_EQ(back, mine);
}
TEST_F(Runtime, OrdersSynchronousCopiesAndSetsInTheDefaultStream) {  // API synchronization behavior
    std::vector<int> mine(count, 3);
    OK(cudaMemcpy(x_, mine.data(), bytes, cudaMemcpyHostToDevice));
    mine.assign(count, 0);  // it was staged
    OK(cudaMemset(x_, 1, 4));
    OK(cudaMemcpy(y_, x_, bytes, cudaMemcpyDeviceToDevice));
    OK(cudaMemcpy(out_, y_, bytes, cudaMemcpyDeviceToHost));
    EXPECT_EQ(out_[0], 0x01010101);
    EXPECT_EQ(out_[1], 3);
    OK(cudaMemset(out_, 2, 4));  // pinned: ends before it returns
    EXPECT_EQ(out_[0], 0x02020202);
}
TEST_F(Runtime, TellsWhatMemoryAnAddressIsOf) {  // Unified Addressing
    cudaPointerAttributes a{};
    OK(cudaPointerGetAttributes(&a, x_ + 1));
    EXPECT_EQ(a.type, cudaMemoryTypeDevice);
    EXPECT_EQ(a.device, 0);
    EXPECT_EQ(a.devicePointer, x_ + 1);
    OK(cudaPointerGetAttributes(&a, in_));
    EXPECT_EQ(a.type, cudaMemoryTypeHost);
    EXPECT_EQ(a.hostPointer, in_);
    OK(cudaPointerGetAttributes(&a, &a));
    EXPECT_EQ(a.type, cudaMemoryTypeUnregistered);
    EXPECT_EQ(a.device, cudaInvalidDeviceId);  // observed
    EXPECT_EQ(a.devicePointer, nullptr);
    EXPECT_EQ(cudaPointerGetAttributes(nullptr, x_), cudaErrorInvalidValue);
    cudaGetLastError();
}
TEST_F(Runtime, AllocatesPinnedMemoryWithFlags) {
    void* p = nullptr;
    OK(cudaHostAlloc(&p, bytes, cudaHostAllocPortable | cudaHostAllocMapped));
    static_cast<int*>(p)[0] = 5;
    OK(cudaFreeHost(p));
    EXPECT_EQ(cudaHostAlloc(&p, bytes, 0x100), cudaErrorInvalidValue);
    cudaGetLastError();
}
/// The device reads pinned memory, too, so that nothing shows which direction was meant. Observed
/// to be taken on CUDA 13.0, H100.
TEST_F(Runtime, LeavesACopyInAWrongDirectionUndefined) {
    expect_undefined([&] { return cudaMemcpyAsync(x_, in_, bytes, cudaMemcpyDeviceToHost, s_); });
}
TEST_F(Runtime, RefusesCopiesOfNullPointersAndInNoDirection) {
    EXPECT_EQ(cudaMemcpy(nullptr, in_, bytes, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemcpyAsync(x_, nullptr, bytes, cudaMemcpyHostToDevice, s_),
              cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemsetAsync(nullptr, 0, bytes, s_), cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemcpy(x_, in_, bytes, static_cast<cudaMemcpyKind>(5)),
              cudaErrorInvalidMemcpyDirection);
    cudaGetLastError();
}
TEST_F(Runtime, CopiesNothingFromAnywhere) {
    OK(cudaMemcpyAsync(x_, in_, 0, cudaMemcpyDefault, s_));
}

TEST_F(Runtime, GivesMemoryInTheOrderOfAStream) {  // Stream Ordered Memory Allocator
    void* p = nullptr;
    OK(cudaMallocAsync(&p, bytes, s_));
    to_device(static_cast<int*>(p), in_, s_);
    to_host(out_, static_cast<int*>(p), s_);
    OK(cudaFreeAsync(p, s_));
    OK(cudaStreamSynchronize(s_));
    EXPECT_EQ(out_[5], 5);
}

// ---- Stream Management, Event Management ----------------------------------------------------

TEST_F(Runtime, OrdersStreamsByEvents) {
    to_device(x_, in_, s_);
    OK(cudaEventRecord(e_, s_));
    OK(cudaStreamWaitEvent(t_, e_, 0));
    to_host(out_, x_, t_);
    OK(cudaStreamSynchronize(t_));
    EXPECT_EQ(out_[7], 7);
}
TEST_F(Runtime, WaitsForTheRecordThatWasTheLastAtTheTimeOfTheCall) {
    to_device(x_, in_, s_);
    OK(cudaEventRecord(e_, s_));
    OK(cudaStreamWaitEvent(t_, e_, 0));
    to_host(out_, x_, t_);
    OK(cudaEventRecord(e_, t_));  // the wait above is of the first record
    OK(cudaEventSynchronize(e_));
    EXPECT_EQ(out_[7], 7);
    OK(cudaEventQuery(e_));
}
TEST_F(Runtime, RefusesFlagsAndModesThatAreNone) {
    OK(cudaEventRecord(e_, s_));
    EXPECT_EQ(cudaStreamWaitEvent(t_, e_, 7), cudaErrorInvalidValue);
    EXPECT_EQ(cudaStreamWaitEvent(t_, e_, cudaEventWaitExternal), cudaErrorInvalidValue)
        << "of captures";
    auto mode = static_cast<cudaStreamCaptureMode>(3);
    EXPECT_EQ(cudaStreamBeginCapture(s_, mode), cudaErrorInvalidValue);
    EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaErrorInvalidValue);
    cudaGetLastError();
}
TEST_F(Runtime, LetsAnEventBeDestroyedBehindItsWait) {
    cudaEvent_t e{};
    OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    to_device(x_, in_, s_);
    OK(cudaEventRecord(e, s_));
    OK(cudaStreamWaitEvent(t_, e, 0));
    OK(cudaEventDestroy(e));
    to_host(out_, x_, t_);
    OK(cudaStreamSynchronize(t_));
    EXPECT_EQ(out_[7], 7);
}
TEST_F(Runtime, FinishesTheWorkOfAStreamThatIsDestroyed) {
    cudaStream_t s{};
    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    to_device(x_, in_, s);
    OK(cudaEventRecord(e_, s));
    OK(cudaStreamDestroy(s));
    OK(cudaStreamWaitEvent(t_, e_, 0));
    to_host(out_, x_, t_);
    OK(cudaStreamSynchronize(t_));
    EXPECT_EQ(out_[9], 9);
}
/// The manual does not name cudaErrorNotReady among what cudaGetLastError returns. Observed of
/// cudaStreamQuery on CUDA 13.0, H100; of cudaEventQuery concluded from it.
TEST_F(Runtime, LetsThePollerGetThereAndKeepsNotReadyFromTheLastError) {
    for (int i = 0; i < 50; ++i) to_device(x_, in_, s_);
    cudaError_t answer{};
    while ((answer = cudaStreamQuery(s_)) == cudaErrorNotReady) {
    }
    EXPECT_EQ(answer, cudaSuccess);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    for (int i = 0; i < 50; ++i) to_device(x_, in_, s_);
    OK(cudaEventRecord(e_, s_));
    while ((answer = cudaEventQuery(e_)) == cudaErrorNotReady) {
    }
    EXPECT_EQ(answer, cudaSuccess);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}
TEST_F(Runtime, SynchronizesTheLegacyDefaultStreamWithBlockingStreamsOnly) {
    cudaStream_t blocking{};
    OK(cudaStreamCreate(&blocking));
    to_device(x_, in_, blocking);
    OK(cudaMemsetAsync(x_, 0, 4, nullptr));
    to_host(out_, x_, blocking);
    OK(cudaStreamSynchronize(blocking));
    EXPECT_EQ(out_[0], 0);
    EXPECT_EQ(out_[1], 1);
    to_device(x_, in_, blocking);
    OK(cudaStreamDestroy(blocking));  // its work still runs
    int back[2] = {};
    OK(cudaMemcpy(back, x_, sizeof back, cudaMemcpyDeviceToHost));
    EXPECT_EQ(back[0], in_[0]);
    EXPECT_EQ(back[1], in_[1]);
}
TEST_F(Runtime, CallsHostFunctionsInOrder) {  // Execution Control
    struct Seen {
        const int* at;
        int value;
    } seen{out_, 0};
    to_device(x_, in_, s_);
    to_host(out_, x_, s_);
    OK(cudaLaunchHostFunc(
        s_, [](void* p) { static_cast<Seen*>(p)->value = static_cast<Seen*>(p)->at[11]; }, &seen));
    OK(cudaStreamSynchronize(s_));
    EXPECT_EQ(seen.value, 11);
}
TEST_F(Runtime, MeasuresTimeThatDoesNotRunBackwards) {
    cudaEvent_t a{}, b{};
    for (cudaEvent_t* e : {&a, &b}) OK(cudaEventCreate(e));
    OK(cudaEventRecord(a, s_));
    to_device(x_, in_, s_);
    OK(cudaEventRecord(b, s_));
    OK(cudaEventSynchronize(b));
    float ms = -1;
    OK(cudaEventElapsedTime(&ms, a, b));
    EXPECT_GE(ms, 0);
    for (const cudaEvent_t e : {a, b}) OK(cudaEventDestroy(e));
}
TEST_F(Runtime, RefusesTimesOfEventsWithoutTiming) {
    OK(cudaEventRecord(e_, s_));
    OK(cudaEventSynchronize(e_));
    expect_refused(cudaErrorInvalidResourceHandle, [&] {
        float ms = 0;
        return cudaEventElapsedTime(&ms, e_, e_);
    });
}

// ---- Several devices (Programming Guide, Multi-Device System) -------------------------------

class TwoDevices : public Runtime {
protected:
    void SetUp() override {
        Runtime::SetUp();
        int devices = 0;
        OK(cudaGetDeviceCount(&devices));
        if (devices < 2) GTEST_SKIP() << "one device only";
    }
};

TEST_F(TwoDevices, CopyToEachOtherAndWaitForEachOthersEvents) {
    to_device(x_, in_, s_);
    OK(cudaEventRecord(e_, s_));
    OK(cudaSetDevice(1));
    void* there = nullptr;
    cudaStream_t s1{};
    OK(cudaMalloc(&there, bytes));
    OK(cudaStreamCreateWithFlags(&s1, cudaStreamNonBlocking));
    OK(cudaStreamWaitEvent(s1, e_, 0));
    OK(cudaMemcpyPeerAsync(there, 1, x_, 0, bytes, s1));
    to_host(out_, static_cast<int*>(there), s1);
    OK(cudaStreamSynchronize(s1));
    EXPECT_EQ(out_[13], 13);
    OK(cudaFree(there));
    OK(cudaStreamDestroy(s1));
}
TEST_F(TwoDevices, SerializeTheirWorkWithACopyBetweenThem) {  // cudaMemcpyPeer
    to_device(x_, in_, s_);
    OK(cudaSetDevice(1));
    void* there = nullptr;
    cudaStream_t s1{};
    OK(cudaMalloc(&there, bytes));
    OK(cudaStreamCreateWithFlags(&s1, cudaStreamNonBlocking));
    OK(cudaMemcpyPeer(there, 1, x_, 0, bytes));
    to_host(out_, static_cast<int*>(there), s1);
    OK(cudaStreamSynchronize(s1));
    EXPECT_EQ(out_[13], 13);
    OK(cudaFree(there));
    OK(cudaStreamDestroy(s1));
}
TEST_F(TwoDevices, EnableAccessToEachOtherOnce) {  // Peer Device Memory Access
    int can = -1;
    OK(cudaDeviceCanAccessPeer(&can, 0, 0));
    EXPECT_EQ(can, 0);
    EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
    OK(cudaDeviceCanAccessPeer(&can, 0, 1));
    EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 1), cudaErrorInvalidValue);
    EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), can == 1 ? cudaSuccess : cudaErrorInvalidDevice);
    cudaGetLastError();
    if (can == 0) return;
    EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
    OK(cudaDeviceDisablePeerAccess(1));
    cudaGetLastError();
}
TEST_F(TwoDevices, RecordTheirOwnEventsOnly) {
    OK(cudaSetDevice(1));
    cudaStream_t s1{};
    OK(cudaStreamCreateWithFlags(&s1, cudaStreamNonBlocking));
    expect_refused(cudaErrorInvalidResourceHandle, [&] { return cudaEventRecord(e_, s1); });
    cudaStreamDestroy(s1);
}
TEST_F(TwoDevices, LaunchEachOthersGraphs) {  // Programming Guide: the stream is for ordering only
    begin();
    to_device(x_, in_, s_);
    const cudaGraphExec_t g = end();
    OK(cudaSetDevice(1));
    cudaStream_t s1{};
    OK(cudaStreamCreateWithFlags(&s1, cudaStreamNonBlocking));
    OK(cudaGraphLaunch(g, s1));
    OK(cudaStreamSynchronize(s1));
    OK(cudaStreamDestroy(s1));
    OK(cudaSetDevice(0));
    to_host(out_, x_, s_);
    OK(cudaStreamSynchronize(s_));
    EXPECT_EQ(out_[13], 13);
    OK(cudaGraphExecDestroy(g));
}

// ---- Captures and Graph Management ----------------------------------------------------------

TEST_F(Runtime, CapturesWithoutRunningAndReplays) {
    cudaStreamCaptureStatus status{};
    OK(cudaMemsetAsync(x_, 0, bytes, s_));
    begin();
    OK(cudaStreamIsCapturing(s_, &status));
    EXPECT_EQ(status, cudaStreamCaptureStatusActive);
    to_host(out_, x_, s_);
    const cudaGraphExec_t g = end();
    OK(cudaStreamIsCapturing(s_, &status));
    EXPECT_EQ(status, cudaStreamCaptureStatusNone);
    OK(cudaStreamSynchronize(s_));
    EXPECT_EQ(out_[0], -1) << "it was only captured";
    for (int i = 1; i <= 2; ++i) {
        OK(cudaMemsetAsync(x_, i, bytes, s_));
        OK(cudaGraphLaunch(g, s_));
        OK(cudaStreamSynchronize(s_));
        EXPECT_EQ(out_[0], 0x01010101 * i);
    }
    OK(cudaGraphExecDestroy(g));
}
TEST_F(Runtime, CapturesOtherStreamsByEvents) {
    begin();
    to_device(x_, in_, s_);
    OK(cudaEventRecord(e_, s_));
    OK(cudaStreamWaitEvent(t_, e_, 0));
    to_host(out_, x_, t_);
    OK(cudaEventRecord(e_, t_));
    OK(cudaStreamWaitEvent(s_, e_, 0));
    const cudaGraphExec_t g = end();
    OK(cudaGraphLaunch(g, s_));
    OK(cudaStreamSynchronize(s_));
    EXPECT_EQ(out_[17], 17);
    OK(cudaGraphExecDestroy(g));
}
TEST_F(Runtime, RunsLaunchesOfAnInstanceInOrderAndHostFunctionsInEach) {
    int calls = 0;
    begin();
    OK(cudaLaunchHostFunc(s_, [](void* p) { ++*static_cast<int*>(p); }, &calls));
    const cudaGraphExec_t g = end();
    for (int i = 0; i < 3; ++i) OK(cudaGraphLaunch(g, i % 2 == 0 ? s_ : t_));
    for (const cudaStream_t s : {s_, t_}) OK(cudaStreamSynchronize(s));
    EXPECT_EQ(calls, 3);
    OK(cudaGraphExecDestroy(g));
}
TEST_F(Runtime, UpdatesAnInstanceWithTheSameNodes) {
    const auto set = [&](int value, int times) {
        begin();
        for (int i = 0; i < times; ++i) EXPECT_EQ(cudaMemsetAsync(x_, value, 4, s_), cudaSuccess);
        to_host(out_, x_, s_);
        cudaGraph_t graph{};
        EXPECT_EQ(cudaStreamEndCapture(s_, &graph), cudaSuccess);
        return graph;
    };
    const cudaGraph_t first = set(1, 1), second = set(2, 1), longer = set(3, 2);
    cudaGraphExec_t g{};
    cudaGraphExecUpdateResultInfo info{};
    OK(cudaGraphInstantiateWithFlags(&g, first, 0));
    OK(cudaGraphLaunch(g, s_));
    OK(cudaGraphExecUpdate(g, second, &info));
    EXPECT_EQ(info.result, cudaGraphExecUpdateSuccess);
    OK(cudaStreamSynchronize(s_));
    EXPECT_EQ(out_[0], 0x01010101);
    OK(cudaGraphLaunch(g, s_));
    OK(cudaStreamSynchronize(s_));
    EXPECT_EQ(out_[0], 0x02020202);
    EXPECT_EQ(cudaGraphExecUpdate(g, longer, &info), cudaErrorGraphExecUpdateFailure);
    EXPECT_EQ(info.result, cudaGraphExecUpdateErrorTopologyChanged);
    cudaGetLastError();
    for (const cudaGraph_t graph : {first, second, longer}) OK(cudaGraphDestroy(graph));
    OK(cudaGraphExecDestroy(g));
}
TEST_F(Runtime, MakesAGraphOfNothing) {
    begin();
    const cudaGraphExec_t g = end();
    OK(cudaGraphLaunch(g, s_));
    OK(cudaStreamSynchronize(s_));
    OK(cudaGraphExecDestroy(g));
}
TEST_F(Runtime, BeginsEveryThreadInTheGlobalCaptureMode) {
    auto mode = cudaStreamCaptureModeRelaxed;
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    EXPECT_EQ(mode, cudaStreamCaptureModeRelaxed);
}
TEST_F(Runtime, AllocatesInACaptureOnlyWhereTheThreadIsRelaxed) {
    begin();
    auto mode = cudaStreamCaptureModeRelaxed;
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    void* p = nullptr;
    OK(cudaMalloc(&p, 1000));
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    const cudaGraphExec_t g = end();
    OK(cudaFree(p));
    OK(cudaGraphExecDestroy(g));
    begin();
    expect_refused(cudaErrorStreamCaptureUnsupported, [&] { return cudaMalloc(&p, 1000); });
    abandon();
}
TEST_F(Runtime, RefusesToWaitForACapturedStream) {
    begin();
    expect_refused(cudaErrorStreamCaptureUnsupported, [&] { return cudaStreamSynchronize(s_); });
    abandon();
}
TEST_F(Runtime, RefusesAnEventFromOutsideInACapture) {
    OK(cudaEventRecord(e_, t_));
    begin();
    expect_refused(cudaErrorStreamCaptureIsolation, [&] { return cudaStreamWaitEvent(s_, e_, 0); });
    abandon();
}
TEST_F(Runtime, RefusesACaptureWithAStreamThatWasNotJoined) {
    begin();
    to_device(x_, in_, s_);
    OK(cudaEventRecord(e_, s_));
    OK(cudaStreamWaitEvent(t_, e_, 0));
    to_host(out_, x_, t_);
    expect_refused(cudaErrorStreamCaptureUnjoined, [&] {
        cudaGraph_t graph{};
        return cudaStreamEndCapture(s_, &graph);
    });
}

// ---- What needs no device -------------------------------------------------------------------

TEST(NoDevice, ErrorsHaveTheseNamesAndSentences) {
    EXPECT_STREQ(cudaGetErrorName(cudaErrorNotReady), "cudaErrorNotReady");
    EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
    EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(12345)), "unrecognized error code");
    int version = 0, known = 0;
    OK(cudaRuntimeGetVersion(&version));
    if (version / 10 != 1300) return;         // the double's are those of 13.0
    std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a of "code|name|sentence" in lines
    for (int code = 0; code < 1000; ++code) {
        const auto error = static_cast<cudaError_t>(code);
        const std::string name = cudaGetErrorName(error);
        if (name == "unrecognized error code") continue;
        ++known;
        const std::string line =
            std::to_string(code) + "|" + name + "|" + cudaGetErrorString(error) + "\n";
        for (const char c : line) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
    EXPECT_EQ(known, 133);
    EXPECT_EQ(hash, 0x770cf5476b653c2d);
}
TEST(NoDevice, TheRuntimeTellsItsVersion) {
    int version = 0;
    OK(cudaRuntimeGetVersion(&version));
    EXPECT_EQ(version / 1000, CUDART_VERSION / 1000);
}
TEST(NoDevice, WithoutADriverEveryCallSaysSo) {
#ifdef GX_CUDA_DOUBLED
    gx::cuda_testing::reset({.driver_version = 0, .check_at_exit = false});
#endif
    int devices = -1, version = -1;
    if (cudaGetDeviceCount(&devices) != cudaErrorInsufficientDriver)
        GTEST_SKIP() << "there is a driver";
    OK(cudaDriverGetVersion(&version));
    EXPECT_EQ(version, 0);
    void* p = nullptr;
    cudaStream_t s{};
    cudaEvent_t e{};
    EXPECT_EQ(cudaMalloc(&p, 4), cudaErrorInsufficientDriver);
    EXPECT_EQ(cudaMallocHost(&p, 4), cudaErrorInsufficientDriver);
    EXPECT_EQ(cudaStreamCreateWithFlags(&s, 0), cudaErrorInsufficientDriver);
    EXPECT_EQ(cudaEventCreateWithFlags(&e, 0), cudaErrorInsufficientDriver);
    cudaPointerAttributes attributes{};
    EXPECT_EQ(cudaStreamCreate(&s), cudaErrorInsufficientDriver);
    EXPECT_EQ(cudaEventCreate(&e), cudaErrorInsufficientDriver);
    EXPECT_EQ(cudaHostAlloc(&p, 4, cudaHostAllocDefault), cudaErrorInsufficientDriver);
    EXPECT_EQ(cudaMemset(nullptr, 0, 4), cudaErrorInsufficientDriver);
    EXPECT_EQ(cudaMemcpyPeer(nullptr, 0, nullptr, 0, 4), cudaErrorInsufficientDriver);
    EXPECT_EQ(cudaPointerGetAttributes(&attributes, &p), cudaErrorInsufficientDriver);
    EXPECT_EQ(cudaDeviceCanAccessPeer(&devices, 0, 1), cudaErrorInsufficientDriver);
    EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorInsufficientDriver);
    EXPECT_EQ(cudaSetDevice(0), cudaErrorInsufficientDriver);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorInsufficientDriver);
    EXPECT_EQ(cudaDeviceReset(), cudaErrorInsufficientDriver);
    EXPECT_EQ(cudaFree(nullptr), cudaErrorInsufficientDriver);
    EXPECT_EQ(cudaEventDestroy(nullptr), cudaErrorInsufficientDriver);
    EXPECT_EQ(devices, -1) << "it stays";
    EXPECT_EQ(p, nullptr);
    EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInsufficientDriver);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInsufficientDriver);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInsufficientDriver) << "no call clears it";
}

}  // namespace
