// Memory: what may use it and when, and a host that touches what it must not, in a forked child.
#include "double.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace {

using namespace double_test;

class CudaMemory : public Double {};

// ---- What is given out -------------------------------------------------------------------------

TEST_F(CudaMemory, DeviceMemoryIsAlignedPoisonedAndCounted) {
    std::size_t before = 0, after = 0, total = 0;
    ok(cudaMemGetInfo(&before, &total));
    EXPECT_EQ(total, std::size_t{2} << 30);
    int* const x = device_memory(3);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x) % 256, 0u);
    ok(cudaMemGetInfo(&after, &total));
    EXPECT_GE(before - after, 12u);
    int got[3] = {};
    ok(cudaMemcpy(got, x, 12, cudaMemcpyDeviceToHost));
    for (const int n : got) EXPECT_EQ(n, -1);
    ok(cudaFree(x));
    ok(cudaMemGetInfo(&after, &total));
    EXPECT_EQ(after, before);
    expect_clean();
}
TEST_F(CudaMemory, MoreThanADeviceHasIsRefused) {
    start({.device_bytes = 1000});
    void* p = nullptr;
    EXPECT_EQ(cudaMalloc(&p, 1001), cudaErrorMemoryAllocation);
    EXPECT_EQ(p, nullptr);
    EXPECT_EQ(cudaMalloc(&p, 900), cudaErrorMemoryAllocation) << "in lines of 256 bytes it is 1024";
    ok(cudaMalloc(&p, 700));
    ok(cudaSetDevice(1));
    ok(cudaMalloc(&p, 700));
}
TEST_F(CudaMemory, SizesThatNoAddressReachesAreRefused) {
    char mine[64];
    for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX - 5, SIZE_MAX - 8192, SIZE_MAX / 2 + 1}) {
        void* p = nullptr;
        EXPECT_EQ(cudaMalloc(&p, bytes), cudaErrorMemoryAllocation) << bytes;
        EXPECT_EQ(cudaMallocHost(&p, bytes), cudaErrorMemoryAllocation) << bytes;
        EXPECT_EQ(p, nullptr);
        EXPECT_EQ(cudaHostRegister(mine, bytes, 0), cudaErrorInvalidValue) << bytes;
    }
    const auto mark = counters();
    ok(cudaHostRegister(mine, sizeof mine, 0));
    EXPECT_EQ((counters() - mark).host_allocations, 1);
    ok(cudaHostUnregister(mine));
    expect_clean();
}
TEST_F(CudaMemory, FlagsOfPinnedAndRegisteredMemory) {
    void* p = nullptr;
    ok(cudaHostAlloc(&p, 4,
                     cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined));
    *static_cast<int*>(p) = 7;
    EXPECT_EQ(counters().host_allocations, 1);
    ok(cudaFreeHost(p));
    EXPECT_EQ(cudaHostAlloc(&p, 4, 8), cudaErrorInvalidValue);
    EXPECT_EQ(cudaHostAlloc(nullptr, 4, 0), cudaErrorInvalidValue);
    char mine[64];
    EXPECT_EQ(cudaHostRegister(mine, 64, 16), cudaErrorInvalidValue);
    EXPECT_EQ(cudaHostRegister(mine, 64, cudaHostRegisterReadOnly), cudaErrorNotSupported);
    EXPECT_EQ(cudaHostRegister(mine, 0, 0), cudaErrorInvalidValue);
    EXPECT_EQ(cudaHostRegister(nullptr, 64, 0), cudaErrorInvalidValue);
    ok(cudaHostRegister(mine, 64, cudaHostRegisterPortable | cudaHostRegisterMapped));
    ok(cudaHostUnregister(mine));
    expect_clean();
}
TEST_F(CudaMemory, ALengthThatWrapsIsBeyondTheAllocation) {
    int* const x = device_memory(4);
    EXPECT_THROW(cudaMemsetAsync(x + 1, 0, SIZE_MAX - 2, nullptr), Misuse);
}
TEST_F(CudaMemory, NowhereToWriteTheResultIsAnInvalidValue) {
    std::size_t n = 0;
    for (const cudaError_t error :
         {cudaMalloc(static_cast<void**>(nullptr), 4), cudaMalloc(static_cast<void**>(nullptr), 0),
          cudaMallocHost(static_cast<void**>(nullptr), 4),
          cudaMallocAsync(static_cast<void**>(nullptr), 4, nullptr), cudaMemGetInfo(nullptr, &n),
          cudaMemGetInfo(&n, nullptr)})
        EXPECT_EQ(error, cudaErrorInvalidValue);
    EXPECT_EQ(counters().allocations + counters().host_allocations, 0);
    expect_clean();
}
TEST_F(CudaMemory, NoAddressIsGivenOutTwice) {
    std::set<int*> seen;
    for (int i = 0; i < 20; ++i) {
        int* const x = device_memory(100);
        EXPECT_TRUE(seen.insert(x).second);
        ok(cudaFree(x));
    }
}
TEST_F(CudaMemory, NothingIsAnAllocationOfNoBytes) {
    void* p = &p;
    ok(cudaMalloc(&p, 0));
    EXPECT_EQ(p, nullptr);
    ok(cudaFree(nullptr));
    ok(cudaFreeHost(nullptr));
    expect_clean();
}
TEST_F(CudaMemory, StreamOrderedMemoryIsUsedBehindItsAllocation) {
    in_every_order([] {
        const cudaStream_t s = new_stream();
        void* p = nullptr;
        ok(cudaMallocAsync(&p, 4, s));
        auto* const x = static_cast<int*>(p);
        int* const out = pinned_memory(1);
        ok(cudaMemsetAsync(x, 0, 4, s));
        add(x, 3, s);
        copy(out, x, 1, s);
        ok(cudaFreeAsync(x, s));
        ok(cudaStreamSynchronize(s));
        EXPECT_EQ(*out, 3);
        ok(cudaFreeHost(out));
        ok(cudaStreamDestroy(s));
        expect_clean();
    });
}
TEST_F(CudaMemory, RegisteredMemoryIsCopiedToAndFrom) {
    in_every_order([] {
        std::vector<int> mine(2, 5);
        ok(cudaHostRegister(mine.data(), 8, cudaHostRegisterDefault));
        EXPECT_EQ(cudaHostRegister(mine.data() + 1, 4, 0), cudaErrorHostMemoryAlreadyRegistered);
        EXPECT_EQ(cudaGetLastError(), cudaErrorHostMemoryAlreadyRegistered);
        int* const x = device_memory(2);
        const cudaStream_t s = new_stream();
        copy(x, mine.data(), 2, s);
        add(x, 1, s);
        copy(mine.data(), x, 2, s);
        ok(cudaStreamSynchronize(s));
        EXPECT_EQ(mine, (std::vector<int>{6, 5}));
        ok(cudaHostUnregister(mine.data()));
    });
}

// ---- Misuse ------------------------------------------------------------------------------------

TEST_F(CudaMemory, PageableMemoryInAnAsynchronousCopy) {
    int* const x = device_memory(1);
    int mine = 0;
    EXPECT_EQ(sentence_of([&] { copy(&mine, x, 1, new_stream()); }),
              "cudaMemcpyAsync (stream 1 of device 0) writes pageable memory of the host. Use "
              "cudaMallocHost or cudaHostRegister; from pageable memory a copy is not "
              "asynchronous.");
}
TEST_F(CudaMemory, ACopyBeyondAnAllocation) {
    int *const x = device_memory(4), *const from = pinned_memory(8);
    EXPECT_EQ(sentence_of([&] { copy(x + 1, from, 4, new_stream()); }),
              "cudaMemcpyAsync (stream 1 of device 0) writes bytes 4 to 20 of device memory 1 of "
              "device 0 (16 bytes).");
}
TEST_F(CudaMemory, ACopyThatSaysAnotherDirection) {
    int *const x = device_memory(1), *const from = pinned_memory(1);
    EXPECT_EQ(
        sentence_of([&] { cudaMemcpyAsync(x, from, 4, cudaMemcpyDeviceToHost, new_stream()); }),
        "cudaMemcpyAsync (stream 1 of device 0) says 'device to host', but its memory is "
        "'host to device'.");
}
TEST_F(CudaMemory, MemoryOfAnotherDeviceThanTheStreams) {
    int* const x = device_memory(1);
    ok(cudaSetDevice(1));
    EXPECT_EQ(sentence_of([&] { cudaMemsetAsync(x, 0, 4, new_stream()); }),
              "cudaMemsetAsync (stream 1 of device 1) writes device memory 1 of device 0 (4 bytes) "
              "from device 1. Allocate it with that device current, or copy it with "
              "cudaMemcpyPeerAsync.");
}
TEST_F(CudaMemory, AKernelThatReportsMemoryOfAnotherDevice) {
    int* const x = device_memory(1);
    ok(cudaSetDevice(1));
    const cudaStream_t s = new_stream();
    add(x, 1, s);
    EXPECT_EQ(sentence_of([&] { cudaStreamSynchronize(s); }),
              "'add' (stream 1 of device 1) writes device memory 1 of device 0 (4 bytes) from "
              "device 1. Allocate it with that device current, or copy it with "
              "cudaMemcpyPeerAsync.");
}
TEST_F(CudaMemory, APeerCopyWithTheWrongDevices) {
    int* const x = device_memory(1);
    ok(cudaSetDevice(1));
    int* const y = device_memory(1);
    EXPECT_EQ(sentence_of([&] { cudaMemcpyPeerAsync(y, 0, x, 1, 4, new_stream()); }),
              "cudaMemcpyPeerAsync (stream 1 of device 1) reads device memory 1 of device 0 (4 "
              "bytes) from device 1. Allocate it with that device current, or copy it with "
              "cudaMemcpyPeerAsync.");
}
TEST_F(CudaMemory, FreedTwice) {
    int* const x = device_memory(1);
    ok(cudaFree(x));
    EXPECT_EQ(sentence_of([&] { cudaFree(x); }),
              "cudaFree of device memory 1 of device 0 (4 bytes), which cudaFree freed already.");
}
TEST_F(CudaMemory, FreedByTheWrongPartner) {
    int* const x = pinned_memory(1);
    EXPECT_EQ(sentence_of([&] { cudaFree(x); }),
              "cudaFree of pinned memory 1 (4 bytes). Release memory with the partner of its "
              "allocation.");
    start({});
    int mine = 0;
    EXPECT_EQ(sentence_of([&] { cudaHostUnregister(&mine); }),
              "cudaHostUnregister of memory that the runtime did not allocate.");
}
TEST_F(CudaMemory, FreedInTheMiddle) {
    int* const x = device_memory(2);
    EXPECT_EQ(sentence_of([&] { cudaFree(x + 1); }),
              "cudaFree of byte 4 of device memory 1 of device 0 (8 bytes). Free what the "
              "allocation returned.");
}
TEST_F(CudaMemory, FreedWhileQueuedWorkUsesIt) {
    int* const x = device_memory(1);
    ok(cudaMemsetAsync(x, 0, 4, new_stream()));
    EXPECT_EQ(sentence_of([&] { cudaFree(x); }),
              "cudaFree of device memory 1 of device 0 (4 bytes) while 'set of 4 bytes' (stream 1 "
              "of device 0) is queued on it. Wait for the stream or an event behind it first.");
}
TEST_F(CudaMemory, FreedBehindWorkThatNobodyWaitedFor) {
    start({.progress = StreamProgress::eager});
    int* const x = device_memory(1);
    ok(cudaMemsetAsync(x, 0, 4, new_stream()));
    EXPECT_EQ(
        sentence_of([&] { cudaFree(x); }),
        "race: 'cudaFree' (host) writes bytes 0 to 4 of 'device memory 1 of device 0', which "
        "'set of 4 bytes' (stream 1 of device 0) writes, and nothing orders the two. Wait for "
        "the event of 'set of 4 bytes' before 'cudaFree'.");
}
TEST_F(CudaMemory, FreedBehindAReadThatNobodyWaitedFor) {
    start({.progress = StreamProgress::eager});
    int *const x = device_memory(1), *const out = pinned_memory(1);
    copy(out, x, 1, new_stream());
    EXPECT_EQ(sentence_of([&] { cudaFree(x); }).find("race: 'cudaFree' (host) writes"), 0u);
}
TEST_F(CudaMemory, RegisteredMemoryReleasedWhileACopyUsesIt) {
    int *const x = device_memory(1), mine = 0;
    ok(cudaHostRegister(&mine, 4, 0));
    copy(x, &mine, 1, new_stream());
    EXPECT_NE(sentence_of([&] { cudaHostUnregister(&mine); }).find("is queued on it"),
              std::string::npos);
}
TEST_F(CudaMemory, StreamOrderedMemoryIsNotFreedByTheHostBeforeItIsThere) {
    void* p = nullptr;
    ok(cudaMallocAsync(&p, 4, new_stream()));
    EXPECT_EQ(sentence_of([&] { cudaFree(p); }),
              "cudaFree of device memory 1 of device 0 (4 bytes), whose cudaMallocAsync has not "
              "run. Wait for it first.");
}
TEST_F(CudaMemory, StreamOrderedMemoryIsWrittenByItsAllocationAndItsEnd) {
    start({.progress = StreamProgress::eager});
    const cudaStream_t s = new_stream(), t = new_stream();
    void* p = nullptr;
    ok(cudaMallocAsync(&p, 4, s));
    EXPECT_EQ(sentence_of([&] { cudaMemsetAsync(p, 0, 4, t); }).find("race: "), 0u);
    start({.progress = StreamProgress::eager});
    int *const x = device_memory(1), *const out = pinned_memory(1);
    copy(out, x, 1, new_stream());
    EXPECT_EQ(sentence_of([&] { cudaFreeAsync(x, new_stream()); }).find("race: 'cudaFreeAsync'"),
              0u);
}
TEST_F(CudaMemory, NamesAreOfWhatBeginsThere) {
    int* const x = device_memory(2);
    EXPECT_EQ(sentence_of([&] { name_memory(x + 1, "weights"); }),
              "'weights' names memory that no allocation begins at.");
}
TEST_F(CudaMemory, ACopyReadsAndWrites) {
    in_every_order([] {
        int *const x = device_memory(1), *const y = device_memory(1);
        EXPECT_EQ(sentence_of([&] {
                      copy(y, x, 1, new_stream());
                      add(x, 1, new_stream());
                      ok(cudaDeviceSynchronize());
                  }).find("race: "),
                  0u);
    });
    in_every_order([] {
        int *const x = device_memory(1), *const y = device_memory(1), *const out = pinned_memory(1);
        EXPECT_EQ(sentence_of([&] {
                      copy(y, x, 1, new_stream());
                      copy(out, y, 1, new_stream());
                      ok(cudaDeviceSynchronize());
                  }).find("race: "),
                  0u);
        start({});
        int* const z = device_memory(1);
        EXPECT_EQ(sentence_of([&] {
                      ok(cudaMemsetAsync(z, 0, 4, new_stream()));
                      copy(pinned_memory(1), z, 1, new_stream());
                      ok(cudaDeviceSynchronize());
                  }).find("race: "),
                  0u);
    });
}
TEST_F(CudaMemory, FreedBeforeAKernelThatUsesIt) {
    int* const x = device_memory(1);
    const cudaStream_t s = new_stream();
    add(x, 1, s);
    ok(cudaFree(x));  // what a queued kernel uses is known as it runs
    EXPECT_EQ(sentence_of([&] { cudaStreamSynchronize(s); }),
              "'add' (stream 1 of device 0) writes device memory 1 of device 0 (4 bytes), which "
              "cudaFree freed.");
}
TEST_F(CudaMemory, PinnedMemoryFreedWhileACopyUsesIt) {
    int *const x = device_memory(1), *const from = pinned_memory(1);
    copy(x, from, 1, new_stream());
    EXPECT_EQ(sentence_of([&] { cudaFreeHost(from); }),
              "cudaFreeHost of pinned memory 1 (4 bytes) while 'copy host to device of 4 bytes' "
              "(stream 1 of device 0) is queued on it. Wait for the stream or an event behind it "
              "first.");
}
TEST_F(CudaMemory, StreamOrderedMemoryUsedInAnotherStream) {
    in_every_order([] {
        const cudaStream_t s = new_stream(), t = new_stream();
        void* p = nullptr;
        ok(cudaMallocAsync(&p, 4, s));
        const std::string text = sentence_of([&] {
            ok(cudaMemsetAsync(p, 0, 4, t));
            ok(cudaDeviceSynchronize());
        });
        const bool race = text.find("race: 'set of 4 bytes'") == 0;
        const bool early = text.find("whose cudaMallocAsync has not run") != std::string::npos;
        EXPECT_TRUE(race || early) << text;
    });
}
TEST_F(CudaMemory, StreamOrderedMemoryFreedTooEarly) {
    in_every_order([] {
        const cudaStream_t s = new_stream(), t = new_stream();
        int* const x = device_memory(1);
        const std::string text = sentence_of([&] {
            add(x, 1, s);
            ok(cudaFreeAsync(x, t));
            ok(cudaDeviceSynchronize());
        });
        EXPECT_TRUE(text.find("race: 'cudaFreeAsync'") == 0 ||
                    text.find("which cudaFreeAsync freed") != std::string::npos)
            << text;
    });
}
TEST_F(CudaMemory, StreamOrderedMemoryFreedInAnotherStream) {
    in_every_order([] {
        const cudaStream_t s = new_stream(), t = new_stream();
        void* p = nullptr;
        ok(cudaMallocAsync(&p, 4, s));
        const std::string text = sentence_of([&] {
            ok(cudaFreeAsync(p, t));
            ok(cudaDeviceSynchronize());
        });
        EXPECT_TRUE(text.find("race: 'cudaFreeAsync'") == 0 ||
                    text ==
                        "cudaFreeAsync (stream 2 of device 0) of device memory 1 of device 0 "
                        "(4 bytes), whose cudaMallocAsync has not run. Wait for it first.")
            << text;
        ok(cudaDeviceSynchronize());  // the double goes on, and the memory is there
        ok(cudaFree(p));
    });
}
TEST_F(CudaMemory, StreamOrderedMemoryUsedWhereItWasAllocatedAndFreedElsewhere) {
    in_every_order([] {
        const cudaStream_t s = new_stream(), t = new_stream();
        const cudaEvent_t e = new_event();
        void* p = nullptr;
        ok(cudaMallocAsync(&p, 4, s));
        ok(cudaEventRecord(e, s));
        ok(cudaStreamWaitEvent(t, e, 0));
        ok(cudaFreeAsync(p, t));
        ok(cudaDeviceSynchronize());
        EXPECT_EQ(sentence_of([&] { cudaMemsetAsync(p, 0, 4, s); }),
                  "cudaMemsetAsync (stream 1 of device 0) writes device memory 1 of device 0 (4 "
                  "bytes), which cudaFreeAsync freed.");
    });
}
TEST_F(CudaMemory, LeaksAreNamed) {
    name_memory(device_memory(1), "weights");
    pinned_memory(2);
    new_stream();
    new_event();
    EXPECT_EQ(sentence_of([] { expect_clean(); }).find("not released: "), 0u);
    const std::string text = first_misuse();
    for (const char* const name :
         {"'weights', device memory 1 of device 0 (4 bytes)", "pinned memory 1 (8 bytes)",
          "stream 1 of device 0", "event 1 of device 0"})
        EXPECT_NE(text.find(name), std::string::npos) << text;
}
TEST_F(CudaMemory, NamesAreThoseOfRaces) {
    start({.progress = StreamProgress::eager});
    int* const x = device_memory(1);
    name_memory(x, "weights");
    ok(cudaMemsetAsync(x, 0, 4, new_stream()));
    const std::string text = sentence_of([&] { cudaMemsetAsync(x, 0, 4, new_stream()); });
    EXPECT_NE(text.find("of 'weights'"), std::string::npos) << text;
}

// ---- A host that touches what it must not ------------------------------------------------------

class HostAccess : public Double {
protected:
    template <class F>
    static void expect_fault(const std::string& text, F f) {
        const Ending ending = in_child(f);
        EXPECT_EQ(ending.signal, SIGSEGV) << ending.status << ending.text;
        EXPECT_EQ(ending.text, "gx: " + text + "\n");
    }
};

TEST_F(HostAccess, ToDeviceMemory) {
    volatile int* const x = device_memory(4);
    expect_fault(
        "the host touches byte 8 of device memory 1 of device 0 (16 bytes). Launch a kernel on it, "
        "or copy it to the host first.",
        [=] { (void)x[2]; });
    expect_fault(
        "the host touches byte 0 of device memory 1 of device 0 (16 bytes). Launch a kernel on it, "
        "or copy it to the host first.",
        [=] { x[0] = 1; });
}
TEST_F(HostAccess, ToDeviceMemoryBehindAnOperation) {
    int* const x = device_memory(1);
    const cudaStream_t s = new_stream();
    ok(cudaMemsetAsync(x, 0, 4, s));
    add(x, 1, s);
    ok(cudaStreamSynchronize(s));
    expect_fault(
        "the host touches byte 0 of device memory 1 of device 0 (4 bytes). Launch a kernel on it, "
        "or copy it to the host first.",
        [=] { *static_cast<volatile int*>(x) = 1; });
}
TEST_F(HostAccess, ToFreedMemory) {
    volatile int* const x = device_memory(1);
    ok(cudaFree(const_cast<int*>(x)));
    expect_fault(
        "the host touches byte 0 of device memory 1 of device 0 (4 bytes), which cudaFree "
        "freed.",
        [=] { (void)*x; });
    volatile int* const y = pinned_memory(1);
    ok(cudaFreeHost(const_cast<int*>(y)));
    expect_fault("the host touches byte 0 of pinned memory 1 (4 bytes), which cudaFreeHost freed.",
                 [=] { (void)*y; });
}
TEST_F(HostAccess, OfAKernelToAnotherDevice) {
    int* const x = device_memory(1);
    ok(cudaSetDevice(1));
    const cudaStream_t s = new_stream();
    enqueue_kernel(s, "unreported", [=] { *x = 1; });
    expect_fault(
        "'unreported' (stream 1 of device 1) touches byte 0 of device memory 1 of device 0 "
        "(4 bytes) from device 1. Copy it to this device first.",
        [=] { cudaStreamSynchronize(s); });
}
TEST_F(HostAccess, OfAKernelBeyondItsMemory) {
    int* const x = device_memory(64);  // to the end of a page
    const cudaStream_t s = new_stream();
    enqueue_kernel(s, "too far", [=] { x[64] = 1; });
    expect_fault(
        "'too far' (stream 1 of device 0) touches byte 256 of device memory 1 of device 0 "
        "(256 bytes): beyond its bounds.",
        [=] { cudaStreamSynchronize(s); });
}
TEST_F(HostAccess, OfAKernelThatReportsNothingOpensMemoryOfItsDevice) {
    int *const x = device_memory(4), *const out = pinned_memory(1);
    const cudaStream_t s = new_stream();
    ok(cudaMemsetAsync(x, 0, 16, s));
    enqueue_kernel(s, "unreported", [=] { x[3] += 7; });
    copy(out, x + 3, 1, s);
    ok(cudaStreamSynchronize(s));
    EXPECT_EQ(*out, 7);
    const Ending ending = in_child([=] { (void)*static_cast<volatile int*>(x); });
    EXPECT_EQ(ending.signal, SIGSEGV) << "it is closed again";
}
TEST_F(HostAccess, OfAHostFunctionToDeviceMemory) {
    int* const x = device_memory(1);
    const cudaStream_t s = new_stream();
    ok(cudaLaunchHostFunc(s, [](void* p) { *static_cast<int*>(p) = 1; }, x));
    expect_fault(
        "'host function' (stream 1 of device 0) touches byte 0 of device memory 1 of "
        "device 0 (4 bytes). Launch a kernel on it, or copy it to the host first.",
        [=] { cudaStreamSynchronize(s); });
}
TEST_F(HostAccess, OfAHostFunctionBehindWorkOnTheSameMemory) {
    int* const x = device_memory(1);
    const cudaStream_t s = new_stream();
    ok(cudaMemsetAsync(x, 0, 4, s));
    ok(cudaLaunchHostFunc(s, [](void* p) { *static_cast<int*>(p) = 1; }, x));
    const Ending ending = in_child([=] { cudaStreamSynchronize(s); });
    EXPECT_EQ(ending.signal, SIGSEGV) << ending.text;
}
TEST_F(HostAccess, OfAKernelBehindWorkOfAnotherDevice) {
    int* const x = device_memory(1);
    const cudaEvent_t e = new_event();
    ok(cudaMemsetAsync(x, 0, 4, nullptr));
    ok(cudaEventRecord(e, nullptr));
    ok(cudaSetDevice(1));
    int* const y = device_memory(1);
    const cudaStream_t s = new_stream();
    ok(cudaStreamWaitEvent(s, e, 0));
    ok(cudaMemsetAsync(y, 0, 4, s));
    enqueue_kernel(s, "unreported", [=] { *x = 1; });
    const Ending ending = in_child([=] { cudaStreamSynchronize(s); });
    EXPECT_EQ(ending.signal, SIGSEGV) << ending.text;
}
TEST_F(HostAccess, OfSystemCallsBehindAMisuse) {
    int *const x = device_memory(1), *const to = pinned_memory(1);
    copy(to, x, 1, new_stream());
    EXPECT_NE(sentence_of([] { cudaEventDestroy(nullptr); }), "");
    device_memory(1);  // the double goes on
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    EXPECT_EQ(::write(ends[1], to, 4), 4);
    for (const int end : ends) ::close(end);
}
TEST_F(HostAccess, ToTheTargetOfACopyThatIsQueued) {
    int *const x = device_memory(1), *const to = pinned_memory(1);
    copy(to, x, 1, new_stream());
    expect_fault(
        "the host uses byte 0 of pinned memory 1 (4 bytes) while 'copy device to host of 4 "
        "bytes' (stream 1 of device 0), which writes it, is queued. Wait for the stream or "
        "an event behind it first.",
        [=] { (void)*static_cast<volatile int*>(to); });
}
TEST_F(HostAccess, ToTheTargetOfACopyThatRanAndWasNotWaitedFor) {
    start({.progress = StreamProgress::eager});
    int *const x = device_memory(1), *const to = pinned_memory(1);
    copy(to, x, 1, new_stream());
    const Ending ending = in_child([=] { (void)*static_cast<volatile int*>(to); });
    EXPECT_EQ(ending.signal, SIGSEGV);
    EXPECT_EQ(ending.text.find("gx: race: 'use by the host' (host) reads bytes 0 to 1 of 'pinned "
                               "memory 1', which 'copy device to host of 4 bytes'"),
              0u)
        << ending.text;
}
TEST_F(HostAccess, ThatWritesTheSourceOfACopyThatIsQueued) {
    int *const x = device_memory(1), *const from = pinned_memory(1);
    copy(x, from, 1, new_stream());
    expect_fault(
        "the host writes byte 0 of pinned memory 1 (4 bytes) while 'copy host to device of "
        "4 bytes' (stream 1 of device 0), which reads it, is queued. Wait for the stream or "
        "an event behind it first.",
        [=] { *static_cast<volatile int*>(from) = 1; });
}
TEST_F(HostAccess, ThatIsRight) {
    in_every_order([] {
        int *const x = device_memory(2000), *const mine = pinned_memory(4000);
        const cudaStream_t s = new_stream();
        for (int i = 0; i < 4000; ++i) mine[i] = i;
        copy(x, mine, 2000, s);
        EXPECT_EQ(mine[7], 7) << "both only read";
        EXPECT_EQ(mine[3999], 3999);
        mine[3998] = 5;  // beside the copy
        ok(cudaStreamSynchronize(s));
        mine[0] = 1;
        copy(mine, x, 2000, s);
        ok(cudaStreamSynchronize(s));
        EXPECT_EQ(mine[0], 0);
        mine[0] = 2;
        ok(cudaFree(x));
        ok(cudaFreeHost(mine));
        ok(cudaStreamDestroy(s));
        expect_clean();
    });
}
TEST_F(HostAccess, OfAHostFunctionBehindTheCopy) {
    in_every_order([] {
        struct Both {
            int *to, got;
        } both{pinned_memory(1), 0};
        int* const x = device_memory(1);
        const cudaStream_t s = new_stream();
        ok(cudaMemsetAsync(x, 0, 4, s));
        copy(both.to, x, 1, s);
        ok(cudaLaunchHostFunc(
            s, [](void* p) { static_cast<Both*>(p)->got = 1 + *static_cast<Both*>(p)->to; },
            &both));
        ok(cudaStreamSynchronize(s));
        EXPECT_EQ(both.got, 1);
    });
}
TEST_F(HostAccess, OfSystemCallsFailsWhereItIsWrong) {
    in_every_order([] {
        int *const x = device_memory(1), *const from = pinned_memory(1),
                   *const to = pinned_memory(1);
        const cudaStream_t s = new_stream(), t = new_stream();
        *from = 5;
        copy(x, from, 1, s);
        copy(to, x, 1, s);
        int ends[2];
        ASSERT_EQ(::pipe(ends), 0);
        const auto fails = [](ssize_t n) { return n == -1 && errno == EFAULT; };
        EXPECT_TRUE(fails(::write(ends[1], to, 4))) << "the copy writes it";
        EXPECT_EQ(::write(ends[1], from, 4), 4) << "both only read";
        EXPECT_TRUE(fails(::read(ends[0], from, 4)));
        ok(cudaStreamSynchronize(t));
        EXPECT_TRUE(fails(::write(ends[1], to, 4))) << "this was the wrong stream";
        ok(cudaStreamSynchronize(s));
        EXPECT_EQ(::read(ends[0], from, 4), 4);
        EXPECT_EQ(::write(ends[1], to, 4), 4);
        EXPECT_EQ(::read(ends[0], to, 4), 4);
        EXPECT_EQ(*to, 5);
        for (const int end : ends) ::close(end);
    });
}
TEST_F(HostAccess, OfSystemCallsFailsInPagesThatOtherWorkUsesStill) {
    in_every_order([] {
        int *const x = device_memory(2), *const to = pinned_memory(2);
        const cudaStream_t s = new_stream(), t = new_stream();
        copy(to, x, 1, s);
        copy(to + 1, x + 1, 1, t);
        ok(cudaStreamSynchronize(s));
        int ends[2];
        ASSERT_EQ(::pipe(ends), 0);
        EXPECT_EQ(::write(ends[1], to, 4), -1);
        ok(cudaStreamSynchronize(t));
        EXPECT_EQ(::write(ends[1], to, 4), 4);
        for (const int end : ends) ::close(end);
    });
}
TEST_F(HostAccess, OfSystemCallsIsOpenWhereNothingIsWatched) {
    start({.watch_pinned = false});
    int *const x = device_memory(1), *const to = pinned_memory(1);
    copy(to, x, 1, new_stream());
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    EXPECT_EQ(::write(ends[1], to, 4), 4);
    for (const int end : ends) ::close(end);
}

// ---- Handlers of SIGSEGV -----------------------------------------------------------------------

volatile char* last_byte = nullptr;
void says_and_ends(int, siginfo_t* info, void*) {
    const bool right = info->si_addr == const_cast<char*>(last_byte);
    [[maybe_unused]] const auto n = ::write(2, right ? "mine\n" : "another address\n", 5);
    end_child(7);
}
/// A child whose handler was there before the double's touches a byte.
Ending with_a_handler(volatile char* byte, int flags, void (*handler)(int, siginfo_t*, void*)) {
    return in_child([=] {
        struct sigaction action{};
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        ::sigaction(SIGSEGV, &action, nullptr);
        reset({});
        last_byte = byte != nullptr ? byte : reinterpret_cast<volatile char*>(device_memory(1));
        (void)*last_byte;
    });
}
TEST_F(HostAccess, IsGivenOnToTheHandlerBefore) {
    const Ending of_device = with_a_handler(nullptr, SA_SIGINFO, &says_and_ends);
    EXPECT_EQ(of_device.status, 7);
    EXPECT_EQ(of_device.text,
              "gx: the host touches byte 0 of device memory 1 of device 0 (4 bytes). Launch a "
              "kernel on it, or copy it to the host first.\nmine\n");
    auto* const elsewhere = reinterpret_cast<volatile char*>(std::uintptr_t{64});
    const Ending other = with_a_handler(elsewhere, SA_SIGINFO, &says_and_ends);
    EXPECT_EQ(other.status, 7);
    EXPECT_EQ(other.text, "mine\n");
}
TEST_F(HostAccess, IsGivenOnOnce) {
    static struct sigaction doubles;  // a handler that gives on to the double's again
    ::sigaction(SIGSEGV, nullptr, &doubles);
    const Ending ending = with_a_handler(
        nullptr, SA_SIGINFO,
        [](int n, siginfo_t* info, void* context) { doubles.sa_sigaction(n, info, context); });
    EXPECT_EQ(ending.signal, SIGSEGV);
}
TEST_F(HostAccess, EndsAProcessThatIgnoresSignals) {
    const Ending ending = in_child([] {
        std::signal(SIGSEGV, SIG_IGN);
        reset({});
        (void)*static_cast<volatile int*>(device_memory(1));
    });
    EXPECT_EQ(ending.signal, SIGSEGV);
}
TEST_F(HostAccess, LeaksEndAProcessWithASentence) {
    const Ending ending = in_child([] {
        reset({});
        device_memory(1);
        std::exit(0);
    });
    EXPECT_EQ(ending.status, 1);
    EXPECT_EQ(ending.text,
              "gx: at the end of the process: not released: device memory 1 of device "
              "0 (4 bytes). Free and destroy what was created.\n");
}

}  // namespace
