// Streams and events: late work, races in both directions, misuse, deadlocks.
#include "double.hpp"

#include <thread>

namespace {

using namespace double_test;

class Streams : public Double {
protected:
    /// Copy in on one stream, kernel on another, copy out on the first.
    struct Pipeline {
        int *from = pinned_memory(4), *to = pinned_memory(1), *x = device_memory(4);
        cudaStream_t copies = new_stream(), compute = new_stream();
        cudaEvent_t arrived = new_event(), computed = new_event();

        explicit Pipeline(bool waits_in = true, bool waits_out = true, bool host_waits = true) {
            for (int i = 0; i < 4; ++i) from[i] = 10 + i;
            *to = -1;
            copy(x, from, 4, copies);
            ok(cudaEventRecord(arrived, copies));
            if (waits_in) ok(cudaStreamWaitEvent(compute, arrived, 0));
            add(x, 5, compute);
            ok(cudaEventRecord(computed, compute));
            if (waits_out) ok(cudaStreamWaitEvent(copies, computed, 0));
            copy(to, x, 1, copies);
            if (host_waits) ok(cudaStreamSynchronize(copies));
        }
        void release() const {
            ok(cudaFree(x));
            ok(cudaFreeHost(from));
            ok(cudaFreeHost(to));
            for (const cudaStream_t s : {copies, compute}) ok(cudaStreamDestroy(s));
            for (const cudaEvent_t e : {arrived, computed}) ok(cudaEventDestroy(e));
        }
    };
};

// ---- Right programs -------------------------------------------------------------------------

TEST_F(Streams, RightWorkIsRightInEveryOrder) {
    in_every_order([] {
        const Pipeline p;
        EXPECT_EQ(*p.to, 15);
        p.release();
        expect_clean();
    });
}
TEST_F(Streams, LateWorkRunsOnlyWhenTheHostWaitsForIt) {
    bool ran[2] = {};
    const cudaStream_t s = new_stream(), t = new_stream();
    enqueue_kernel(s, "a", [&] { ran[0] = true; });
    enqueue_kernel(t, "b", [&] { ran[1] = true; });
    EXPECT_FALSE(ran[0]);
    ok(cudaStreamSynchronize(s));
    EXPECT_TRUE(ran[0]);
    EXPECT_FALSE(ran[1]) << "nobody waited for it";
    ok(cudaDeviceSynchronize());
    EXPECT_TRUE(ran[1]);
}
TEST_F(Streams, LateWorkIsRunWithWhatItWaitsForAlone) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        start({.seed = seed});
        const cudaStream_t s = new_stream(), t = new_stream(), u = new_stream();
        const cudaEvent_t e = new_event();
        std::string text;
        enqueue_kernel(u, "other", [&] { text += "u"; });
        enqueue_kernel(s, "first", [&] { text += "s"; });
        ok(cudaEventRecord(e, s));
        enqueue_kernel(s, "behind the event", [&] { text += "x"; });
        ok(cudaStreamWaitEvent(t, e, 0));
        enqueue_kernel(t, "second", [&] { text += "t"; });
        ok(cudaStreamSynchronize(t));
        EXPECT_EQ(text.find('u'), std::string::npos) << text;
        EXPECT_LT(text.find('s'), text.find('t')) << text;
    }
}
TEST_F(Streams, RandomWorkIsSometimesLateAndSometimesEager) {
    int early = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        start({.seed = seed, .progress = StreamProgress::random});
        bool ran = false;
        enqueue_kernel(new_stream(), "k", [&] { ran = true; });
        early += ran;
    }
    EXPECT_GT(early, 0);
    EXPECT_LT(early, 20);
}
TEST_F(Streams, EagerWorkRunsAsItIsQueued) {
    start({.progress = StreamProgress::eager});
    bool ran = false;
    enqueue_kernel(new_stream(), "a", [&] { ran = true; });
    EXPECT_TRUE(ran);
}
/// Names of four streams as they run.
std::string order_of_streams() {
    std::string text;
    for (const char* const name : {"a", "b", "c", "d"})
        enqueue_kernel(new_stream(), name, [&text, name] { text += name; });
    ok(cudaDeviceSynchronize());
    return text;
}
TEST_F(Streams, OrderOfStreamsDependsOnTheSeed) {
    const auto order = [](std::uint64_t seed) {
        start({.seed = seed});
        return order_of_streams();
    };
    EXPECT_EQ(order(7), order(7));
    std::set<std::string> orders;
    for (std::uint64_t seed = 0; seed < 20; ++seed) orders.insert(order(seed));
    EXPECT_GT(orders.size(), 5u);
}
TEST_F(Streams, AllSeedsAreShiftedByTheEnvironment) {
    const std::uint64_t before = seed_shift();
    const auto orders = [](std::uint64_t first) {
        std::vector<std::string> all;
        for (std::uint64_t seed = first; seed < first + 8; ++seed) {
            start({.seed = seed});
            all.push_back(order_of_streams());
        }
        return all;
    };
    const auto of_20 = orders(20), of_0 = orders(0);
    ::setenv("GX_CUDA_SEED_SHIFT", std::to_string(before + 20).c_str(), 1);
    EXPECT_EQ(orders(0), of_20);
    EXPECT_NE(of_0, of_20);
    ::setenv("GX_CUDA_SEED_SHIFT", "2 ", 1);
    EXPECT_THROW((void)seed_shift(), gx::Error);
    ::setenv("GX_CUDA_SEED_SHIFT", std::to_string(before).c_str(), 1);
}
TEST_F(Streams, PollingGetsOn) {
    const cudaStream_t s = new_stream();
    const cudaEvent_t e = new_event();
    int runs = 0;
    for (int i = 0; i < 3; ++i) enqueue_kernel(s, "a", [&] { ++runs; });
    ok(cudaEventRecord(e, s));
    EXPECT_EQ(cudaStreamQuery(s), cudaErrorNotReady);
    EXPECT_EQ(runs, 1) << "a poll runs one operation";
    int polls = 1;
    while (cudaEventQuery(e) == cudaErrorNotReady) ++polls;
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "not ready is no error";
    EXPECT_EQ(runs, 3);
    EXPECT_LE(polls, 4);
    EXPECT_EQ(cudaStreamQuery(s), cudaSuccess);
}
TEST_F(Streams, TheDefaultStreamWaitsForBlockingStreams) {
    in_every_order([] {
        int* const x = device_memory(1);
        const cudaStream_t s = new_stream(cudaStreamDefault);
        ok(cudaMemsetAsync(x, 0, 4, s));
        add(x, 1, nullptr);
        add(x, 2, s);
        int got = 0;
        ok(cudaMemcpy(&got, x, 4, cudaMemcpyDeviceToHost));
        EXPECT_EQ(got, 3);
    });
}
TEST_F(Streams, TheDefaultStreamOrdersBlockingStreamsOfItsDeviceAlone) {
    in_every_order([] {
        int* const x = device_memory(1);
        EXPECT_EQ(sentence_of([&] {
                      add(x, 1, new_stream(cudaStreamNonBlocking), "beside");
                      add(x, 1, nullptr, "default");
                      ok(cudaDeviceSynchronize());
                  }).find("race: "),
                  0u);
    });
    in_every_order([] {
        int* const x = device_memory(1);
        EXPECT_EQ(sentence_of([&] {
                      for (int i = 0; i < 2; ++i) add(x, 1, new_stream(cudaStreamDefault));
                      ok(cudaDeviceSynchronize());
                  }).find("race: "),
                  0u);
    });
    in_every_order([] {
        int* const x = device_memory(1);
        ok(cudaSetDevice(1));
        ok(cudaDeviceEnablePeerAccess(0, 0));
        add(x, 1, new_stream(cudaStreamDefault), "of device 1");
        ok(cudaSetDevice(0));
        EXPECT_EQ(sentence_of([&] {
                      add(x, 1, nullptr, "default");
                      ok(cudaDeviceSynchronize());
                      ok(cudaSetDevice(1));
                      ok(cudaDeviceSynchronize());
                  }).find("race: "),
                  0u);
    });
}
TEST_F(Streams, TheDefaultStreamWaitsForBlockingStreamsThatWereDestroyed) {
    in_every_order([] {
        int* const x = device_memory(1);
        int back = 0;
        for (const int value : {1, 2}) {
            const cudaStream_t s = new_stream(cudaStreamDefault);
            ok(cudaMemsetAsync(x, value, 4, s));
            ok(cudaStreamDestroy(s));
            ok(cudaMemcpy(&back, x, 4, cudaMemcpyDeviceToHost));
            EXPECT_EQ(back, value * 0x01010101);
        }
        add(x, 1, new_stream(cudaStreamDefault));  // behind the default stream, and so behind both
        ok(cudaMemcpy(&back, x, 4, cudaMemcpyDeviceToHost));
        EXPECT_EQ(back, 0x02020203);
        const cudaStream_t s = new_stream();
        ok(cudaMemsetAsync(x, 3, 4, s));
        ok(cudaStreamDestroy(s));
        EXPECT_TRUE(sentence_of([&] {
                        ok(cudaMemcpy(&back, x, 4, cudaMemcpyDeviceToHost));
                        ok(cudaDeviceSynchronize());
                    }).starts_with("race: "));
    });
}
TEST_F(Streams, ABlockingStreamWaitsForTheDefaultStream) {
    in_every_order([] {
        int* const x = device_memory(1);
        const cudaStream_t s = new_stream(cudaStreamDefault);
        add(x, 1, nullptr);
        add(x, 1, s);
        ok(cudaStreamSynchronize(s));
        ok(cudaFree(x));
    });
}
TEST_F(Streams, AnotherDevicesEventCanBeWaitedFor) {
    in_every_order([] {
        int* const on_0 = device_memory(1);
        const cudaStream_t s0 = new_stream();
        const cudaEvent_t e0 = new_event();
        ok(cudaMemsetAsync(on_0, 1, 4, s0));
        ok(cudaEventRecord(e0, s0));
        ok(cudaSetDevice(1));
        int* const on_1 = device_memory(1);
        int* const out = pinned_memory(1);
        const cudaStream_t s1 = new_stream();
        ok(cudaStreamWaitEvent(s1, e0, 0));
        ok(cudaMemcpyPeerAsync(on_1, 1, on_0, 0, 4, s1));
        copy(out, on_1, 1, s1);
        ok(cudaStreamSynchronize(s1));
        EXPECT_EQ(*out, 0x01010101);
        ok(cudaSetDevice(0));
    });
}
TEST_F(Streams, AnEventIsReachedBeforeWhatFollowsIt) {
    const cudaStream_t s = new_stream();
    const cudaEvent_t e = new_event();
    int runs = 0;
    enqueue_kernel(s, "before", [&] { ++runs; });
    ok(cudaEventRecord(e, s));
    enqueue_kernel(s, "behind", [&] { ++runs; });
    while (cudaEventQuery(e) == cudaErrorNotReady) {
    }
    EXPECT_EQ(runs, 1);
    ok(cudaEventSynchronize(e));
    EXPECT_EQ(runs, 1);
    EXPECT_EQ(cudaStreamQuery(s), cudaErrorNotReady);
    EXPECT_EQ(runs, 2);
}
TEST_F(Streams, AnEventIsOfItsLastRecord) {
    in_every_order([] {
        int *const x = device_memory(1), *const out = pinned_memory(1);
        const cudaStream_t s = new_stream();
        const cudaEvent_t e = new_event();
        ok(cudaEventRecord(e, s));
        ok(cudaMemsetAsync(x, 1, 4, s));
        copy(out, x, 1, s);
        ok(cudaEventRecord(e, s));
        ok(cudaEventSynchronize(e));
        host_reads(out, 4, "report");
        EXPECT_EQ(*out, 0x01010101);
    });
}
TEST_F(Streams, AnEventKnowsTheLastOperationBeforeIt) {
    in_every_order([] {
        int* const x = device_memory(1);
        const cudaStream_t s = new_stream(), t = new_stream();
        const cudaEvent_t e = new_event();
        add(x, 1, s);
        add(x, 1, s);
        ok(cudaEventRecord(e, s));
        ok(cudaStreamWaitEvent(t, e, 0));
        add(x, 1, t);
        while (cudaStreamQuery(t) == cudaErrorNotReady) {
        }
        ok(cudaFree(x));
    });
}
TEST_F(Streams, AQueryOfAnEventThatSucceedsIsAWait) {
    in_every_order([] {
        const Pipeline p(true, true, false);
        const cudaEvent_t e = new_event();
        ok(cudaEventRecord(e, p.copies));
        while (cudaEventQuery(e) == cudaErrorNotReady) {
        }
        host_reads(p.to, 4, "report");
        EXPECT_EQ(*p.to, 15);
    });
}
TEST_F(Streams, HostFunctionsRunInTheirStreamsOrder) {
    const cudaStream_t s = new_stream();
    std::string text;
    enqueue_kernel(s, "a", [&] { text += "a"; });
    ok(cudaLaunchHostFunc(s, [](void* t) { *static_cast<std::string*>(t) += "host"; }, &text));
    enqueue_kernel(s, "b", [&] { text += "b"; });
    ok(cudaStreamSynchronize(s));
    EXPECT_EQ(text, "ahostb");
}
TEST_F(Streams, TimeBetweenEventsIsVirtual) {
    const cudaStream_t s = new_stream();
    cudaEvent_t a{}, b{};
    for (cudaEvent_t* e : {&a, &b}) ok(cudaEventCreate(e));
    ok(cudaEventRecord(a, s));
    for (int i = 0; i < 10; ++i) enqueue_kernel(s, "k", [] {});
    ok(cudaEventRecord(b, s));
    float ms = -1;
    EXPECT_EQ(cudaEventElapsedTime(&ms, a, b), cudaErrorNotReady);
    EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
    ok(cudaEventSynchronize(b));
    ok(cudaEventElapsedTime(&ms, a, b));
    EXPECT_NEAR(ms, 0.011, 1e-6);
}

// ---- Races: a wait that is missing, in either direction -------------------------------------

TEST_F(Streams, AMissingWaitForTheInputIsNamed) {
    in_every_order([] {
        const std::string text = sentence_of([] { Pipeline(false); });
        EXPECT_NE(text.find("race: "), std::string::npos) << text;
        EXPECT_NE(text.find("'add' (stream 2 of device 0)"), std::string::npos) << text;
        EXPECT_NE(text.find("of 'device memory 1 of device 0'"), std::string::npos) << text;
        EXPECT_NE(text.find("copy host to device of 16 bytes"), std::string::npos) << text;
    });
}
TEST_F(Streams, AMissingWaitForTheResultIsNamed) {
    in_every_order([] {
        const std::string text = sentence_of([] {
            Pipeline(true, false);
            ok(cudaDeviceSynchronize());
        });
        EXPECT_NE(text.find("race: "), std::string::npos) << text;
        EXPECT_NE(text.find("copy device to host of 4 bytes"), std::string::npos) << text;
    });
}
TEST_F(Streams, MemoryThatIsFilledAgainTooEarlyIsNamed) {
    in_every_order([] {
        const std::string text = sentence_of([] {
            const Pipeline p;
            add(p.x, 1, p.compute, "uses it still");
            copy(p.x, p.from, 1, p.copies);
            ok(cudaDeviceSynchronize());
        });
        EXPECT_NE(text.find("'uses it still'"), std::string::npos) << text;
    });
}
TEST_F(Streams, AHostThatReadsTooEarlyIsNamedByItsReport) {
    in_every_order([] {
        const std::string text = sentence_of([] {
            const Pipeline p(true, true, false);
            host_reads(p.to, 4, "report of the loss");
        });
        EXPECT_NE(text.find("'report of the loss'"), std::string::npos) << text;
        EXPECT_NE(text.find("copy device to host"), std::string::npos) << text;
    });
}
TEST_F(Streams, AHostThatWritesTooEarlyIsNamedByItsReport) {
    in_every_order([] {
        const std::string text = sentence_of([] {
            const Pipeline p(true, true, false);
            host_writes(p.from, 4, "the next batch");
        });
        EXPECT_NE(text.find("'the next batch'"), std::string::npos) << text;
        EXPECT_NE(text.find("copy host to device"), std::string::npos) << text;
    });
}
TEST_F(Streams, AHostMayReadWhatAQueuedCopyReads) {
    const Pipeline p(true, true, false);
    host_reads(p.from, 16, "checksum");
    EXPECT_NE(sentence_of([&] { host_writes(p.from + 3, 4, "the next batch"); }), "");
}
TEST_F(Streams, AQueryThatSucceedsIsAWait) {
    in_every_order([] {
        const Pipeline p(true, true, false);
        while (cudaStreamQuery(p.copies) == cudaErrorNotReady) {
        }
        host_reads(p.to, 4, "report");
        EXPECT_EQ(*p.to, 15);
    });
}

// ---- Misuse ---------------------------------------------------------------------------------

TEST_F(Streams, AStreamThatWasDestroyed) {
    const cudaStream_t s = new_stream();
    ok(cudaStreamDestroy(s));
    EXPECT_EQ(sentence_of([&] { cudaStreamSynchronize(s); }),
              "cudaStreamSynchronize: stream 1 of device 0 was destroyed by cudaStreamDestroy.");
}
TEST_F(Streams, AStreamThatWasDestroyedTwice) {
    const cudaStream_t s = new_stream();
    ok(cudaStreamDestroy(s));
    EXPECT_EQ(sentence_of([&] { cudaStreamDestroy(s); }),
              "cudaStreamDestroy: stream 1 of device 0 was destroyed by cudaStreamDestroy.");
}
TEST_F(Streams, TheDefaultStreamIsNotDestroyed) {
    EXPECT_EQ(sentence_of([] { cudaStreamDestroy(nullptr); }),
              "cudaStreamDestroy of the default stream of device 0, which is not created.");
}
TEST_F(Streams, AStreamOfAnEarlierDouble) {
    const cudaStream_t s = new_stream();
    start({});
    EXPECT_EQ(sentence_of([&] { cudaStreamSynchronize(s); }),
              "cudaStreamSynchronize: a stream that was never created, or before the last reset.");
}
TEST_F(Streams, WorkOfADestroyedStreamRunsButMustBeWaitedFor) {
    in_every_order([] {
        const cudaStream_t s = new_stream();
        enqueue_kernel(s, "orphan", [] {});
        ok(cudaStreamDestroy(s));
        EXPECT_EQ(sentence_of([] { expect_clean(); }),
                  "stream 1 of device 0 has work that nobody waited for, the last of it 'orphan'. "
                  "Synchronize with the stream, or with an event behind it.");
    });
    in_every_order([] {
        bool ran = false;
        const cudaStream_t s = new_stream(), t = new_stream();
        const cudaEvent_t e = new_event();
        enqueue_kernel(s, "orphan", [&] { ran = true; });
        ok(cudaEventRecord(e, s));
        ok(cudaStreamDestroy(s));
        ok(cudaStreamWaitEvent(t, e, 0));
        ok(cudaStreamSynchronize(t));
        EXPECT_TRUE(ran);
        ok(cudaStreamDestroy(t));
        ok(cudaEventDestroy(e));
        expect_clean();
    });
}
TEST_F(Streams, AKernelInAStreamOfAnotherDevice) {
    const cudaStream_t s = new_stream();
    ok(cudaSetDevice(2));
    EXPECT_EQ(sentence_of([&] { add(nullptr, 1, s); }),
              "'add' is launched in stream 1 of device 0 while device 2 is current: "
              "cudaErrorInvalidResourceHandle. Call cudaSetDevice first.");
}
TEST_F(Streams, AHostFunctionThatCallsTheRuntime) {
    const cudaStream_t s = new_stream();
    ok(cudaLaunchHostFunc(s, [](void*) { cudaDeviceSynchronize(); }, nullptr));
    EXPECT_EQ(sentence_of([&] { cudaStreamSynchronize(s); }),
              "cudaDeviceSynchronize is called by 'host function': work of a stream must not call "
              "the runtime. Let it signal the host instead.");
}
TEST_F(Streams, AHostFunctionThatIsNone) {
    EXPECT_EQ(cudaLaunchHostFunc(new_stream(), nullptr, nullptr), cudaErrorInvalidValue);
}
TEST_F(Streams, ReportsOfAccessesWithoutAKernel) {
    int* const x = device_memory(1);
    const std::string sentence = "'k' reports an access, but no kernel runs.";
    EXPECT_EQ(sentence_of([&] { report_access(x, 4, false, "k"); }), sentence);
    start({});
    static int* y = nullptr;
    y = device_memory(1);
    const cudaStream_t s = new_stream();
    ok(cudaLaunchHostFunc(s, [](void*) { report_access(y, 4, false, "k"); }, nullptr));
    EXPECT_EQ(sentence_of([&] { cudaStreamSynchronize(s); }), sentence);
}
TEST_F(Streams, AccessesAreWatchedAsOperationsRun) {
    int* const x = device_memory(2);
    const cudaStream_t s = new_stream();
    std::vector<std::string> seen;
    watch_accesses(
        [&](const std::string& operation, const void* begin, std::size_t bytes, bool writes) {
            EXPECT_EQ(begin, x + 1);
            seen.push_back(operation + (writes ? " writes " : " reads ") + std::to_string(bytes));
        });
    enqueue_kernel(s, "k", [=] {
        report_access(x + 1, 4, false, "k");
        report_access(x + 1, 4, true, "of k");
    });
    EXPECT_TRUE(seen.empty());
    ok(cudaStreamSynchronize(s));
    EXPECT_EQ(seen, (std::vector<std::string>{"k reads 4", "k writes 4"}));
    start({});
    int* const y = device_memory(1);
    const cudaStream_t t = new_stream();
    enqueue_kernel(t, "unseen", [=] { report_access(y, 4, false, "unseen"); });
    ok(cudaStreamSynchronize(t));
    EXPECT_EQ(seen.size(), 2u);
}
TEST_F(Streams, AKernelsAccessBeyondItsMemoryAndOfNoBytes) {
    int* const x = device_memory(1);
    const cudaStream_t s = new_stream();
    enqueue_kernel(s, "none", [=] { report_access(x + 100, 0, true, "none"); });
    ok(cudaStreamSynchronize(s));
    enqueue_kernel(s, "far", [=] { report_access(x, 8, true, "far"); });
    EXPECT_EQ(sentence_of([&] { cudaStreamSynchronize(s); }),
              "'far' (stream 1 of device 0) writes bytes 0 to 8 of device memory 1 of device 0 (4 "
              "bytes).");
}
TEST_F(Streams, UnknownFlagsOfAnEvent) {
    cudaEvent_t e{};
    EXPECT_EQ(cudaEventCreateWithFlags(&e, 64), cudaErrorInvalidValue);
    EXPECT_EQ(cudaEventCreateWithFlags(&e, cudaEventInterprocess), cudaErrorInvalidValue)
        << "with a time";
    EXPECT_EQ(sentence_of([&] {
                  cudaEventCreateWithFlags(&e, cudaEventInterprocess | cudaEventDisableTiming);
              }),
              "cudaEventCreateWithFlags with cudaEventInterprocess: this double has no events "
              "between processes.");
}
TEST_F(Streams, UnknownFlagsOfAWait) {
    const cudaStream_t s = new_stream(), t = new_stream();
    const cudaEvent_t e = new_event();
    ok(cudaEventRecord(e, s));
    EXPECT_EQ(cudaStreamWaitEvent(t, e, 7), cudaErrorInvalidValue);
    EXPECT_EQ(cudaStreamWaitEvent(t, e, cudaEventWaitExternal), cudaErrorInvalidValue)
        << "of captures";
    EXPECT_EQ(counters().event_waits, 0);
    ok(cudaStreamWaitEvent(t, e, cudaEventWaitDefault));
}
TEST_F(Streams, TimesOfEventsOfTwoDevices) {
    const cudaEvent_t a = new_event(cudaEventDefault);
    ok(cudaEventRecord(a, nullptr));
    ok(cudaSetDevice(1));
    const cudaEvent_t b = new_event(cudaEventDefault);
    ok(cudaEventRecord(b, nullptr));
    float ms = 0;
    EXPECT_EQ(sentence_of([&] { cudaEventElapsedTime(&ms, a, b); }),
              "cudaEventElapsedTime of event 1 of device 0 and event 2 of device 1: "
              "cudaErrorInvalidResourceHandle. Compare events of one device.");
}
TEST_F(Streams, AnEventOfAnotherDevice) {
    const cudaEvent_t e = new_event();
    ok(cudaSetDevice(1));
    const cudaStream_t s = new_stream();
    EXPECT_EQ(sentence_of([&] { cudaEventRecord(e, s); }),
              "cudaEventRecord of event 1 of device 0 in stream 1 of device 1: "
              "cudaErrorInvalidResourceHandle. Create the event with the stream's device current.");
}
TEST_F(Streams, AnEventThatWasDestroyed) {
    const cudaEvent_t e = new_event();
    ok(cudaEventDestroy(e));
    EXPECT_EQ(sentence_of([&] { cudaEventRecord(e, nullptr); }),
              "cudaEventRecord: event 1 of device 0 was destroyed by cudaEventDestroy.");
    start({});
    EXPECT_EQ(sentence_of([&] { cudaEventDestroy(e); }),
              "cudaEventDestroy: an event that was never created, or before the last reset.");
}
TEST_F(Streams, AnEventMayBeDestroyedBeforeItIsReached) {
    in_every_order([] {
        const cudaStream_t s = new_stream(), t = new_stream();
        const cudaEvent_t e = new_event();
        enqueue_kernel(s, "a", [] {});
        ok(cudaEventRecord(e, s));
        ok(cudaStreamWaitEvent(t, e, 0));
        ok(cudaEventDestroy(e));
        ok(cudaStreamSynchronize(t));
    });
}
TEST_F(Streams, AnEventThatWasNeverRecorded) {
    const std::string tail =
        " of event 1 of device 0, which was never recorded: the runtime returns at once and waits "
        "for nothing. Record it first.";
    const auto try_one = [&](const std::string& name, auto f) {
        start({});
        const cudaEvent_t e = new_event(cudaEventDefault);
        EXPECT_EQ(sentence_of([&] { f(e); }), name + tail);
    };
    try_one("cudaStreamWaitEvent", [](cudaEvent_t e) { cudaStreamWaitEvent(nullptr, e, 0); });
    try_one("cudaEventSynchronize", [](cudaEvent_t e) { cudaEventSynchronize(e); });
    try_one("cudaEventQuery", [](cudaEvent_t e) { cudaEventQuery(e); });
    start({});
    const cudaEvent_t e = new_event(cudaEventDefault);
    float ms = 0;
    EXPECT_EQ(sentence_of([&] { cudaEventElapsedTime(&ms, e, e); }),
              "cudaEventElapsedTime of event 1 of device 0, which was never recorded: "
              "cudaErrorInvalidResourceHandle. Record it first.");
}
TEST_F(Streams, TimesOfEventsWithoutTiming) {
    const cudaEvent_t e = new_event();
    float ms = 0;
    EXPECT_EQ(sentence_of([&] { cudaEventElapsedTime(&ms, e, e); }),
              "cudaEventElapsedTime of event 1 of device 0, which was created with "
              "cudaEventDisableTiming: cudaErrorInvalidResourceHandle.");
}
TEST_F(Streams, ThePerThreadDefaultStreamIsNotDoubled) {
    EXPECT_EQ(sentence_of([] { cudaStreamSynchronize(cudaStreamPerThread); }),
              "cudaStreamSynchronize: this double has no per-thread default stream. Create a "
              "stream.");
}

// ---- Waits that cannot end ------------------------------------------------------------------

TEST_F(Streams, ADeadlockIsNamed) {
    for (const auto progress :
         {StreamProgress::late, StreamProgress::eager, StreamProgress::random}) {
        // a sanitizer has a thread of its own, which waits for nothing
        start({.progress = progress, .patience = std::chrono::milliseconds(1)});
        const cudaStream_t s = new_stream(), t = new_stream();
        const cudaEvent_t e = new_event();
        enqueue_when(s, "receive", [] { return false; }, [] {});
        ok(cudaEventRecord(e, s));
        ok(cudaStreamWaitEvent(t, e, 0));
        EXPECT_EQ(sentence_of([&] { cudaStreamSynchronize(t); }),
                  "deadlock: cudaStreamSynchronize waits, and nothing can go on: stream 1 of "
                  "device 0 is at 'receive'; stream 2 of device 0 is at 'wait for event 1 of "
                  "device 0', which waits for stream 1 of device 0.");
    }
}
TEST_F(Streams, ADeadlockOfAllThreadsIsNamedAtOnce) {
    if (threads_of_process() > 1) GTEST_SKIP() << "a sanitizer has a thread of its own";
    start({.patience = std::chrono::hours(10)});
    const cudaStream_t s = new_stream();
    enqueue_when(s, "receive", [] { return false; }, [] {});
    EXPECT_EQ(sentence_of([&] { cudaStreamSynchronize(s); }).find("deadlock: "), 0u);
}
TEST_F(Streams, WorkThatIsReadyAtLastIsNoDeadlock) {
    start({.patience = std::chrono::milliseconds(1)});
    const cudaStream_t s = new_stream();
    int asked = 0;
    bool ran = false;
    enqueue_when(s, "receive", [&] { return ++asked > 2; }, [&] { ran = true; });
    ok(cudaStreamSynchronize(s));
    EXPECT_TRUE(ran);
}
TEST_F(Streams, ACallWakesAHostThatWaits) {
    for (const auto progress :
         {StreamProgress::late, StreamProgress::eager, StreamProgress::random}) {
        start({.progress = progress, .patience = std::chrono::hours(10)});
        const cudaStream_t s = new_stream();
        bool sent = false;
        enqueue_when(s, "receive", [&] { return sent; }, [] {});
        std::thread other([&] {
            const cudaStream_t t = new_stream();
            enqueue_kernel(t, "send", [&] { sent = true; });
            ok(cudaStreamSynchronize(t));
        });
        ok(cudaStreamSynchronize(s));
        other.join();
    }
}
TEST_F(Streams, AHostThreadCanGiveAnotherWhatItWaitsFor) {
    in_every_order([] {
        const cudaStream_t s = new_stream(), t = new_stream();
        bool sent = false, received = false;
        enqueue_when(s, "receive", [&] { return sent; }, [&] { received = true; });
        std::thread other([&] {
            enqueue_kernel(t, "send", [&] { sent = true; });
            ok(cudaStreamSynchronize(t));
        });
        ok(cudaStreamSynchronize(s));
        other.join();
        EXPECT_TRUE(received);
    });
}
TEST_F(Streams, AfterAMisuseOtherThreadsFailAndTheOneThatCaughtItGoesOn) {
    in_every_order([] {
        const cudaStream_t s = new_stream();
        int *const x = device_memory(1), *const y = device_memory(1), *const out = pinned_memory(1);
        bool ran = false;
        enqueue_when(s, "dropped", [] { return false; }, [&] { ran = true; });
        copy(out, x, 1, s);
        EXPECT_NE(sentence_of([] { cudaEventDestroy(nullptr); }), "");
        std::thread([&] { EXPECT_EQ(cudaStreamSynchronize(s), cudaErrorUnknown); }).join();
        EXPECT_EQ(cudaFree(y), cudaSuccess) << "unchecked";
        ok(cudaMemsetAsync(x, 0, 4, s));
        add(x, 4, s);
        *out = 7;  // its copy was dropped
        copy(out, x, 1, s);
        ok(cudaStreamSynchronize(s));
        EXPECT_FALSE(ran);
        EXPECT_EQ(*out, 4);
        const std::string first =
            "cudaEventDestroy: an event that was never created, or before the last reset.";
        EXPECT_EQ(first_misuse(), first);
        EXPECT_EQ(sentence_of([] { expect_clean(); }), first);
    });
    start({});
    EXPECT_EQ(first_misuse(), "");
}
TEST_F(Streams, AKernelThatFailsLeavesTheDoubleInOrder) {
    in_every_order([] {
        const cudaStream_t s = new_stream(), t = new_stream();
        for (int i = 0; i < 3; ++i) {
            const cudaEvent_t e = new_event();
            EXPECT_EQ(sentence_of([&] {
                          enqueue_kernel(s, "k", [] { misuse("a fault"); });
                          ok(cudaEventRecord(e, s));
                          ok(cudaStreamWaitEvent(t, e, 0));
                          ok(cudaStreamSynchronize(t));
                      }),
                      "a fault");
            bool ran = false;
            enqueue_kernel(t, "k", [&] { ran = true; });
            ok(cudaStreamSynchronize(t));
            EXPECT_TRUE(ran);
        }
    });
}

}  // namespace
