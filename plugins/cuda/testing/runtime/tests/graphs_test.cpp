// Captures and graphs: what is captured, how launches are ordered, and what cannot be captured.
#include "double.hpp"

#include <thread>

namespace {

using namespace double_test;

class Graphs : public Double {
protected:
    static cudaGraphExec_t instance(cudaGraph_t graph) {
        cudaGraphExec_t executable{};
        ok(cudaGraphInstantiate(&executable, graph, 0));
        ok(cudaGraphDestroy(graph));
        return executable;
    }
    /// Captures f() in the stream.
    template <class F>
    static cudaGraphExec_t captured(cudaStream_t s, F f) {
        ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
        f();
        cudaGraph_t graph{};
        ok(cudaStreamEndCapture(s, &graph));
        return instance(graph);
    }
    static void begin(cudaStream_t s) {
        ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    }
    /// From s to t.
    static void order(cudaStream_t s, cudaStream_t t) {
        const cudaEvent_t e = new_event();
        ok(cudaEventRecord(e, s));
        ok(cudaStreamWaitEvent(t, e, 0));
        ok(cudaEventDestroy(e));
    }
};

// ---- Right graphs ------------------------------------------------------------------------------

TEST_F(Graphs, AStepIsReplayed) {
    in_every_order([] {
        int *const x = device_memory(2), *const out = pinned_memory(2);
        const cudaStream_t s = new_stream(), t = new_stream();
        ok(cudaMemsetAsync(x, 0, 8, s));
        const cudaGraphExec_t step = captured(s, [&] {
            add(x, 1, s);
            order(s, t);  // a branch, beside the next kernel of s
            add(x + 1, 10, t);
            add(x, 2, s);
            order(t, s);
            copy(out, x, 2, s);
        });
        for (int i = 1; i <= 3; ++i) {
            ok(cudaGraphLaunch(step, s));
            ok(cudaStreamSynchronize(s));
            EXPECT_EQ(out[0], 3 * i);
        }
        EXPECT_EQ(out[1], 30);
        ok(cudaGraphExecDestroy(step));
        ok(cudaFree(x));
        ok(cudaFreeHost(out));
        ok(cudaStreamDestroy(s));
        ok(cudaStreamDestroy(t));
        expect_clean();
    });
}
TEST_F(Graphs, EachLaunchRecordsAnExternalEvent) {
    in_every_order([] {
        int *const x = device_memory(1), *const out = pinned_memory(1);
        const cudaStream_t s = new_stream();
        const cudaEvent_t e = new_event();
        ok(cudaMemsetAsync(x, 0, 4, s));
        const cudaGraphExec_t step = captured(s, [&] {
            add(x, 1, s);
            copy(out, x, 1, s);
            ok(cudaEventRecordWithFlags(e, s, cudaEventRecordExternal));
            add(x, 10, s);  // behind the event
        });
        for (int i = 0; i < 3; ++i) {
            ok(cudaGraphLaunch(step, s));
            if (i == 1) {
                while (cudaEventQuery(e) == cudaErrorNotReady) {
                }
            } else {
                ok(cudaEventSynchronize(e));
            }
            EXPECT_EQ(out[0], 11 * i + 1);
        }
        ok(cudaStreamSynchronize(s));
        ok(cudaGraphExecDestroy(step));
        ok(cudaEventDestroy(e));
        ok(cudaFree(x));
        ok(cudaFreeHost(out));
        ok(cudaStreamDestroy(s));
        expect_clean();
    });
}
TEST_F(Graphs, AnExternalEventIsReachedByTheLatestLaunch) {
    start({.progress = StreamProgress::late});
    int* const x = device_memory(1);
    const cudaStream_t s = new_stream();
    const cudaEvent_t e = new_event();
    ok(cudaMemsetAsync(x, 0, 4, s));
    const cudaGraphExec_t step = captured(s, [&] {
        for (int i = 0; i < 5; ++i) add(x, 1, s);
        ok(cudaEventRecordWithFlags(e, s, cudaEventRecordExternal));
    });
    ok(cudaGraphLaunch(step, s));
    ok(cudaEventSynchronize(e));
    ok(cudaGraphLaunch(step, s));
    EXPECT_EQ(cudaEventQuery(e), cudaErrorNotReady);
    ok(cudaStreamSynchronize(s));
    EXPECT_EQ(cudaEventQuery(e), cudaSuccess);
}
TEST_F(Graphs, ExternalEventsAreOfCapturesAndOutliveGraphs) {
    const cudaStream_t s = new_stream();
    const cudaEvent_t e = new_event();
    EXPECT_EQ(cudaEventRecordWithFlags(e, s, cudaEventRecordExternal), cudaErrorInvalidValue);
    EXPECT_EQ(cudaEventRecordWithFlags(e, s, 7), cudaErrorInvalidValue);
    ok(cudaEventRecordWithFlags(e, s, cudaEventRecordDefault));
    ok(cudaStreamSynchronize(s));
    const cudaEvent_t never = new_event();
    (void)captured(s, [&] { ok(cudaEventRecordWithFlags(never, s, cudaEventRecordExternal)); });
    EXPECT_NE(sentence_of([&] { (void)cudaEventQuery(never); }).find("never recorded"),
              std::string::npos);
    start({});
    const cudaStream_t t = new_stream();
    const cudaEvent_t ended = new_event();
    const cudaGraphExec_t h =
        captured(t, [&] { ok(cudaEventRecordWithFlags(ended, t, cudaEventRecordExternal)); });
    ok(cudaEventDestroy(ended));
    EXPECT_NE(sentence_of([&] {
                  (void)cudaGraphLaunch(h, t);
              }).find("which records event 1 of device 0, destroyed by cudaEventDestroy"),
              std::string::npos);
}
TEST_F(Graphs, ACaptureEndsWithTheErrorOfItsDevice) {
    const cudaStream_t s = new_stream(), t = new_stream();
    ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    order(s, t);
    enqueue_kernel(t, "k", [] {});  // is not joined
    lose_device(0);
    cudaGraph_t graph{};
    EXPECT_EQ(cudaStreamEndCapture(s, &graph), cudaErrorDevicesUnavailable);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(sentence_of([] { expect_clean(); }).find("capture"), std::string::npos);
}
TEST_F(Graphs, NothingRunsWhileItIsCaptured) {
    start({.progress = StreamProgress::eager});
    const cudaStream_t s = new_stream();
    int runs = 0;
    cudaStreamCaptureStatus status{};
    const cudaGraphExec_t g = captured(s, [&] {
        enqueue_kernel(s, "k", [&] { ++runs; });
        ok(cudaStreamIsCapturing(s, &status));
        EXPECT_EQ(status, cudaStreamCaptureStatusActive);
    });
    ok(cudaStreamIsCapturing(s, &status));
    EXPECT_EQ(status, cudaStreamCaptureStatusNone);
    EXPECT_EQ(runs, 0);
    ok(cudaGraphLaunch(g, s));
    EXPECT_EQ(runs, 1);
}
TEST_F(Graphs, LaunchesOfAnInstanceFollowEachOther) {
    in_every_order([] {
        int *const x = device_memory(1), *const out = pinned_memory(1);
        const cudaStream_t s = new_stream(), t = new_stream();
        ok(cudaMemsetAsync(x, 0, 4, s));
        const cudaGraphExec_t g = captured(s, [&] { add(x, 1, s); });
        ok(cudaGraphLaunch(g, s));
        ok(cudaGraphLaunch(g, t));  // behind the one in s, without an event
        copy(out, x, 1, t);
        ok(cudaStreamSynchronize(t));
        EXPECT_EQ(*out, 2);
    });
}
TEST_F(Graphs, BranchesWithoutAWaitRace) {
    in_every_order([] {
        const std::string text = sentence_of([] {
            int* const x = device_memory(1);
            const cudaStream_t s = new_stream(), t = new_stream();
            const cudaGraphExec_t g = captured(s, [&] {
                add(x, 1, s, "first");
                order(s, t);
                add(x, 1, s, "beside");
                add(x, 1, t, "branch");
                order(t, s);
            });
            ok(cudaGraphLaunch(g, s));
            ok(cudaStreamSynchronize(s));
        });
        EXPECT_EQ(text.find("race: "), 0u) << text;
        EXPECT_NE(text.find("'beside of instance 1 of graph 1' (stream 1"), std::string::npos)
            << text;
        EXPECT_NE(text.find("'branch of instance 1 of graph 1' (branch 1"), std::string::npos)
            << text;
    });
}
TEST_F(Graphs, AStepWithoutAllocationOrSynchronization) {
    int *const x = device_memory(1), *const out = pinned_memory(1);
    const cudaStream_t s = new_stream();
    ok(cudaMemsetAsync(x, 0, 4, s));
    const cudaGraphExec_t g = captured(s, [&] { add(x, 1, s); });
    const RuntimeCounters mark = counters();
    ok(cudaGraphLaunch(g, s));
    copy(out, x, 1, s);
    EXPECT_EQ(counters() - mark,
              (RuntimeCounters{.copies = 1, .copied_bytes = 4, .graph_launches = 1}));
    ok(cudaStreamSynchronize(s));
    EXPECT_EQ((counters() - mark).host_synchronizations, 1);
    EXPECT_EQ((counters() - mark).operations, 3) << "the set, the kernel and the copy";
}

// ---- Updates -----------------------------------------------------------------------------------

TEST_F(Graphs, AnUpdateReplacesWhatLaterLaunchesDo) {
    in_every_order([] {
        int *const x = device_memory(2), *const out = pinned_memory(2);
        const cudaStream_t s = new_stream(), t = new_stream();
        const auto step = [&](int n) {
            ok(cudaMemsetAsync(x, n, 8, s));
            add(x, n, s);
            order(s, t);
            add(x + 1, 2 * n, t);
            order(t, s);
            copy(out, x, 2, s);
        };
        const cudaGraphExec_t g = captured(s, [&] { step(1); });
        ok(cudaGraphLaunch(g, s));
        cudaGraph_t next{};
        ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
        step(3);
        ok(cudaStreamEndCapture(s, &next));
        cudaGraphExecUpdateResultInfo info{};
        info.result = cudaGraphExecUpdateError;
        ok(cudaGraphExecUpdate(g, next, &info));
        EXPECT_EQ(info.result, cudaGraphExecUpdateSuccess);
        ok(cudaGraphDestroy(next));
        ok(cudaStreamSynchronize(s));
        EXPECT_EQ(out[0], 0x01010102) << "this launch came before";
        EXPECT_EQ(out[1], 0x01010103);
        ok(cudaGraphLaunch(g, s));
        ok(cudaStreamSynchronize(s));
        EXPECT_EQ(out[0], 0x03030306);
        EXPECT_EQ(out[1], 0x03030309);
        ok(cudaGraphExecDestroy(g));
        for (const cudaStream_t u : {s, t}) ok(cudaStreamDestroy(u));
        ok(cudaFree(x));
        ok(cudaFreeHost(out));
        expect_clean();
    });
}
TEST_F(Graphs, AnUpdateNeedsTheSameNodesEdgesAndMemoryKinds) {
    int *const x = device_memory(2), *const out = pinned_memory(2);
    const cudaStream_t s = new_stream(), t = new_stream();
    const auto graph = [&](auto f) {
        cudaGraph_t g{};
        begin(s);
        f();
        ok(cudaStreamEndCapture(s, &g));
        return g;
    };
    const auto result = [&](auto from, auto to) {
        const cudaGraphExec_t g = instance(graph(from));
        cudaGraphExecUpdateResultInfo info{};
        const cudaError_t error = cudaGraphExecUpdate(g, graph(to), &info);
        EXPECT_EQ(error, info.result == cudaGraphExecUpdateSuccess
                             ? cudaSuccess
                             : cudaErrorGraphExecUpdateFailure);
        return info.result;
    };
    const auto one = [&] { add(x, 1, s); };
    const auto two = [&] { add(x, 1, s), add(x, 1, s); };
    const auto beside = [&] {
        order(s, t);
        add(x, 1, s), add(x + 1, 1, t);
        order(t, s);
    };
    const auto set = [&] { ok(cudaMemsetAsync(x, 0, 4, s)); };
    const auto up = [&] { copy(x, out, 1, s); };
    const auto up_more = [&] { copy(x, out, 2, s); };
    const auto down = [&] { copy(out, x, 1, s); };
    EXPECT_EQ(result(one, one), cudaGraphExecUpdateSuccess);
    EXPECT_EQ(result(up, up_more), cudaGraphExecUpdateSuccess);
    EXPECT_EQ(result(one, two), cudaGraphExecUpdateErrorTopologyChanged);
    EXPECT_EQ(result(two, beside), cudaGraphExecUpdateErrorTopologyChanged);
    EXPECT_EQ(result(one, set), cudaGraphExecUpdateErrorNodeTypeChanged);
    EXPECT_EQ(result(set, up), cudaGraphExecUpdateErrorNodeTypeChanged);
    EXPECT_EQ(result(up, down), cudaGraphExecUpdateErrorParametersChanged);
    const cudaGraph_t here = graph(one);
    EXPECT_EQ(cudaGraphExecUpdate(instance(graph(one)), here, nullptr), cudaErrorInvalidValue);
    ok(cudaSetDevice(1));
    const cudaStream_t there = new_stream();
    begin(there);
    enqueue_kernel(there, "add", [] {});
    cudaGraph_t g{};
    ok(cudaStreamEndCapture(there, &g));
    cudaGraphExecUpdateResultInfo info{};
    EXPECT_EQ(cudaGraphExecUpdate(instance(g), here, &info), cudaErrorGraphExecUpdateFailure);
    EXPECT_EQ(info.result, cudaGraphExecUpdateErrorParametersChanged);
}
TEST_F(Graphs, AnUpdateMayTakeOtherStreams) {
    in_every_order([] {
        int *const x = device_memory(2), *const out = pinned_memory(2);
        const cudaStream_t s = new_stream(), t = new_stream(), u = new_stream();
        const auto two_beside = [&](cudaStream_t first, cudaStream_t second) {
            for (const cudaStream_t branch : {first, second})
                if (branch != s) order(s, branch);
            add(x, 1, first);
            add(x + 1, 2, second);
            for (const cudaStream_t branch : {first, second})
                if (branch != s) order(branch, s);
            copy(out, x, 2, s);
        };
        ok(cudaMemsetAsync(x, 0, 8, s));
        const cudaGraphExec_t g = captured(s, [&] { two_beside(s, t); });
        ok(cudaGraphLaunch(g, s));
        for (const bool again : {true, false}) {  // in three streams, and in two again
            begin(s);
            two_beside(again ? t : s, u);
            cudaGraph_t next{};
            ok(cudaStreamEndCapture(s, &next));
            cudaGraphExecUpdateResultInfo info{};
            ok(cudaGraphExecUpdate(g, next, &info));
            ok(cudaGraphLaunch(g, s));
        }
        ok(cudaStreamSynchronize(s));
        EXPECT_EQ(out[0], 3);
        EXPECT_EQ(out[1], 6);
    });
}
TEST_F(Graphs, AGraphHasANodeForEachOperationAndNoneForEvents) {
    int* const x = device_memory(1);
    const cudaStream_t s = new_stream(), t = new_stream();
    for (const int operations : {0, 2}) {
        begin(s);
        order(s, t);
        for (int i = 0; i < operations; ++i) add(x, 1, t);
        order(t, s);
        cudaGraph_t graph{};
        ok(cudaStreamEndCapture(s, &graph));
        std::size_t nodes = 9;
        ok(cudaGraphGetNodes(graph, nullptr, &nodes));
        EXPECT_EQ(nodes, std::size_t(operations));
        EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, nullptr), cudaErrorInvalidValue);
        ok(cudaGraphDestroy(graph));
    }
}
TEST_F(Graphs, FlagsOfInstances) {
    const cudaStream_t s = new_stream();
    begin(s);
    cudaGraph_t graph{};
    ok(cudaStreamEndCapture(s, &graph));
    cudaGraphExec_t g{};
    ok(cudaGraphInstantiateWithFlags(
        &g, graph,
        cudaGraphInstantiateFlagAutoFreeOnLaunch | cudaGraphInstantiateFlagUseNodePriority));
    ok(cudaGraphLaunch(g, s));
    EXPECT_EQ(sentence_of([&] {
                  cudaGraphInstantiateWithFlags(&g, graph, cudaGraphInstantiateFlagDeviceLaunch);
              }),
              "cudaGraphInstantiateWithFlags of graph 1 with flags 4, which the double does not "
              "have.");
}

// ---- Misuse ------------------------------------------------------------------------------------

TEST_F(Graphs, CallsThatCannotBeCaptured) {
    const auto refused = [](const std::string& name, auto f) {
        start({});
        const cudaStream_t s = new_stream();
        const cudaEvent_t e = new_event();
        ok(cudaEventRecord(e, new_stream()));
        int* const x = device_memory(1);
        begin(s);
        const std::string text = sentence_of([&] { f(s, e, x); });
        EXPECT_EQ(text.find(name), 0u) << text;
        EXPECT_NE(text.find("captured: cudaErrorStreamCaptureUnsupported"), std::string::npos)
            << text;
    };
    void* p = nullptr;
    refused("cudaMalloc while stream 1 of device 0 is",
            [&](auto, auto, auto) { cudaMalloc(&p, 4); });
    refused("cudaMallocHost while", [&](auto, auto, auto) { cudaMallocHost(&p, 4); });
    refused("cudaFree while", [&](auto, auto, int* x) { cudaFree(x); });
    refused("cudaMemcpy while",
            [&](auto, auto, int* x) { cudaMemcpy(x, x, 4, cudaMemcpyDefault); });
    refused("cudaMemset while", [&](auto, auto, int* x) { cudaMemset(x, 0, 4); });
    refused("cudaMemcpyPeer while", [&](auto, auto, int* x) { cudaMemcpyPeer(x, 0, x, 0, 4); });
    refused("cudaHostAlloc while",
            [&](auto, auto, auto) { cudaHostAlloc(&p, 4, cudaHostAllocDefault); });
    refused("cudaDeviceSynchronize while", [](auto, auto, auto) { cudaDeviceSynchronize(); });
    refused("cudaStreamSynchronize of stream 1 of device 0 while it is",
            [](cudaStream_t s, auto, auto) { cudaStreamSynchronize(s); });
    refused("cudaStreamQuery of stream 1", [](cudaStream_t s, auto, auto) { cudaStreamQuery(s); });
    refused("cudaStreamDestroy of stream 1",
            [](cudaStream_t s, auto, auto) { cudaStreamDestroy(s); });
    refused("cudaEventQuery while", [](auto, cudaEvent_t e, auto) { cudaEventQuery(e); });
    refused("cudaEventSynchronize while",
            [](auto, cudaEvent_t e, auto) { cudaEventSynchronize(e); });
}
TEST_F(Graphs, ARelaxedThreadMayAllocateInACapture) {
    const cudaStream_t s = new_stream();
    begin(s);
    auto mode = cudaStreamCaptureModeRelaxed;
    ok(cudaThreadExchangeStreamCaptureMode(&mode));
    EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
    device_memory(1);
    ok(cudaThreadExchangeStreamCaptureMode(&mode));
    EXPECT_EQ(mode, cudaStreamCaptureModeRelaxed);
    EXPECT_NE(sentence_of([] { device_memory(1); }), "");
}
TEST_F(Graphs, AGlobalCaptureForbidsOtherThreadsTooAThreadLocalOneDoesNot) {
    for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
        start({});
        const cudaStream_t s = new_stream();
        ok(cudaStreamBeginCapture(s, mode));
        std::string text;
        std::thread([&] { text = sentence_of([] { device_memory(1); }); }).join();
        EXPECT_EQ(text.empty(), mode == cudaStreamCaptureModeThreadLocal) << text;
    }
}
TEST_F(Graphs, ModesOfThreadsAndCaptures) {
    const auto allocates = [](cudaStreamCaptureMode capture, cudaStreamCaptureMode thread,
                              bool in_another) {
        start({});
        const cudaStream_t s = new_stream();
        ok(cudaStreamBeginCapture(s, capture));
        std::string text;
        const auto f = [&] {
            auto mode = thread;
            ok(cudaThreadExchangeStreamCaptureMode(&mode));
            text = sentence_of([] { device_memory(1); });
            ok(cudaThreadExchangeStreamCaptureMode(&mode));
        };
        if (in_another) std::thread(f).join();
        else f();
        return text.empty();
    };
    constexpr auto global = cudaStreamCaptureModeGlobal, local = cudaStreamCaptureModeThreadLocal,
                   relaxed = cudaStreamCaptureModeRelaxed;
    // the manual's table: the mode of the capture, of the thread that calls, who captures
    EXPECT_FALSE(allocates(global, global, false));
    EXPECT_FALSE(allocates(local, global, false));
    EXPECT_TRUE(allocates(relaxed, global, false));
    EXPECT_FALSE(allocates(global, local, false));
    EXPECT_FALSE(allocates(local, local, false));
    EXPECT_TRUE(allocates(global, relaxed, false));
    EXPECT_FALSE(allocates(global, global, true));
    EXPECT_TRUE(allocates(global, local, true));
    EXPECT_TRUE(allocates(global, relaxed, true));
    EXPECT_TRUE(allocates(local, global, true));
    EXPECT_TRUE(allocates(relaxed, global, true));
}
TEST_F(Graphs, ModesAndFlagsThatAreNone) {
    const cudaStream_t s = new_stream();
    auto mode = static_cast<cudaStreamCaptureMode>(3);
    EXPECT_EQ(cudaStreamBeginCapture(s, mode), cudaErrorInvalidValue);
    EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaErrorInvalidValue);
    mode = cudaStreamCaptureModeRelaxed;
    ok(cudaThreadExchangeStreamCaptureMode(&mode));
    EXPECT_EQ(mode, cudaStreamCaptureModeGlobal) << "it stayed";
    const cudaEvent_t e = new_event();
    begin(s);
    EXPECT_EQ(cudaStreamWaitEvent(s, e, 7), cudaErrorInvalidValue);
    EXPECT_EQ(sentence_of([&] { cudaStreamWaitEvent(s, e, cudaEventWaitExternal); }),
              "cudaStreamWaitEvent with cudaEventWaitExternal in stream 1 of device 0: this double "
              "has no nodes that wait for events.");
}
TEST_F(Graphs, ARelaxedCaptureMayEndInAnotherThread) {
    const cudaStream_t s = new_stream();
    ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    cudaGraph_t g{};
    std::thread([&] { ok(cudaStreamEndCapture(s, &g)); }).join();
    ok(cudaGraphDestroy(g));
}
TEST_F(Graphs, OtherStreamsAreNotWaitedForInACapture) {
    for (const bool queries : {false, true}) {
        start({});
        const cudaStream_t s = new_stream(), t = new_stream();
        begin(s);
        const std::string text =
            sentence_of([&] { queries ? cudaStreamQuery(t) : cudaStreamSynchronize(t); });
        EXPECT_NE(text.find(" while stream 1 of device 0 is captured"), std::string::npos) << text;
    }
}
TEST_F(Graphs, AfterACaptureItsStreamsAreFree) {
    const cudaStream_t s = new_stream(), t = new_stream();
    bool ran = false;
    ok(cudaGraphExecDestroy(captured(s, [&] { order(s, t), order(t, s); })));
    enqueue_kernel(t, "k", [&] { ran = true; });
    ok(cudaStreamSynchronize(t));
    EXPECT_TRUE(ran);
    for (const cudaStream_t u : {s, t}) ok(cudaStreamDestroy(u));
    expect_clean();
}
TEST_F(Graphs, AfterAMisuseInACaptureItsStreamsAreFree) {
    const cudaStream_t s = new_stream(), t = new_stream();
    begin(s);
    order(s, t);
    EXPECT_NE(sentence_of([] { device_memory(1); }), "");
    for (const cudaStream_t u : {s, t}) {
        cudaStreamCaptureStatus status{};
        ok(cudaStreamIsCapturing(u, &status));
        EXPECT_EQ(status, cudaStreamCaptureStatusNone);
    }
    device_memory(1);
}
TEST_F(Graphs, ABranchOfAnotherDevice) {
    in_every_order([] {
        const cudaStream_t s = new_stream();
        const cudaEvent_t e = new_event();
        ok(cudaSetDevice(1));
        int *const y = device_memory(1), *const out = pinned_memory(1);
        const cudaStream_t t = new_stream();
        const cudaEvent_t back = new_event();
        ok(cudaMemsetAsync(y, 0, 4, t));
        ok(cudaStreamSynchronize(t));
        const cudaGraphExec_t g = captured(s, [&] {
            ok(cudaEventRecord(e, s));
            ok(cudaStreamWaitEvent(t, e, 0));
            add(y, 3, t);
            copy(out, y, 1, t);
            ok(cudaEventRecord(back, t));
            ok(cudaStreamWaitEvent(s, back, 0));
        });
        ok(cudaGraphLaunch(g, s));
        ok(cudaStreamSynchronize(s));
        EXPECT_EQ(*out, 3);
    });
}
TEST_F(Graphs, ALaunchWaitsForEachOfItsBranches) {
    in_every_order([] {
        int* const x = device_memory(3);
        const cudaStream_t s = new_stream(), t = new_stream(), u = new_stream();
        const cudaGraphExec_t g = captured(s, [&] {
            order(s, t), order(s, u);
            add(x, 1, t), add(x + 1, 1, u);
            order(t, s), order(u, s);
            add(x + 2, 1, s);
        });
        ok(cudaGraphLaunch(g, s));
        ok(cudaStreamSynchronize(s));
        ok(cudaFree(x));
    });
    in_every_order([] {  // joined, and nothing behind the join
        int* const x = device_memory(2);
        const cudaStream_t s = new_stream(), t = new_stream(), u = new_stream();
        const cudaGraphExec_t g = captured(s, [&] {
            order(s, t), order(s, u);
            add(x, 1, t), add(x + 1, 1, u);
            order(t, s), order(u, s);
        });
        ok(cudaGraphLaunch(g, s));
        ok(cudaStreamSynchronize(s));
        ok(cudaFree(x));
    });
}
TEST_F(Graphs, ALaunchFollowsTheWorkOfItsStreamInAllBranches) {
    in_every_order([] {
        int* const x = device_memory(1);
        const cudaStream_t s = new_stream(), t = new_stream();
        const cudaGraphExec_t g = captured(s, [&] {
            order(s, t);
            add(x, 1, t);
            order(t, s);
        });
        add(x, 1, s);
        ok(cudaGraphLaunch(g, s));
        add(x, 1, s);
        ok(cudaStreamSynchronize(s));
        ok(cudaFree(x));
    });
}
TEST_F(Graphs, LaunchesThatAreRefused) {
    const cudaStream_t s = new_stream(), t = new_stream();
    const cudaGraphExec_t g = captured(s, [&] { enqueue_kernel(s, "k", [] {}); });
    fail_launch(1);
    EXPECT_EQ(cudaGraphLaunch(g, s), cudaErrorLaunchOutOfResources);
    EXPECT_EQ(counters().graph_launches, 0);
    begin(t);
    EXPECT_EQ(sentence_of([&] { cudaGraphLaunch(g, t); }),
              "cudaGraphLaunch in stream 2 of device 0 while it is captured: this double has no "
              "graphs in graphs.");
}
/// "Programming Guide", graph execution: the stream of a launch orders it, and says not where nodes
/// run.
TEST_F(Graphs, ALaunchInAStreamOfAnotherDevice) {
    const auto run = [](bool ordered) {
        int *const x = device_memory(2), *const out = pinned_memory(2);
        const cudaStream_t s = new_stream(), t = new_stream();
        const cudaGraphExec_t g = captured(s, [&] {
            order(s, t);
            add(x, 1, s), add(x + 1, 2, t);
            order(t, s);
        });
        ok(cudaMemsetAsync(x, 0, 8, s));
        ok(cudaSetDevice(1));
        const cudaStream_t there = new_stream();
        ok(cudaSetDevice(0));
        order(s, there);
        for (int i = 0; i < 3; ++i) ok(cudaGraphLaunch(g, there));
        ok(cudaSetDevice(1));
        if (ordered) order(there, s);
        ok(cudaSetDevice(0));
        copy(out, x, 2, s);
        ok(cudaGraphLaunch(g, s));
        ok(cudaStreamSynchronize(s));
        EXPECT_EQ(out[0], 3);
        EXPECT_EQ(out[1], 6);
        ok(cudaGraphLaunch(g, there));
        ok(cudaStreamSynchronize(there));
        ok(cudaFree(x));
    };
    in_every_order([&] { run(true); });
    start({});
    EXPECT_NE(sentence_of([&] { run(false); }).find("(branch 0 of instance 1 of graph 1)"),
              std::string::npos);
}
TEST_F(Graphs, HandlesThatAreNone) {
    const cudaStream_t s = new_stream();
    begin(s);
    cudaGraph_t graph{};
    ok(cudaStreamEndCapture(s, &graph));
    ok(cudaGraphDestroy(graph));
    cudaGraphExec_t g{};
    EXPECT_EQ(sentence_of([&] { cudaGraphInstantiate(&g, graph, 0); }),
              "cudaGraphInstantiate: graph 1 was destroyed by cudaGraphDestroy.");
    start({});
    EXPECT_EQ(sentence_of([&] { cudaGraphInstantiate(&g, graph, 0); }),
              "cudaGraphInstantiate: a graph that was never made, or before the last reset.");
}
TEST_F(Graphs, TheDefaultStreamDoesNotJoinACapture) {
    const cudaStream_t s = new_stream();
    begin(s);
    EXPECT_NE(sentence_of([&] { order(s, nullptr); }).find("cudaErrorStreamCaptureImplicit"),
              std::string::npos);
}
TEST_F(Graphs, ACaptureThatWasNotEnded) {
    begin(new_stream());
    const std::string text = sentence_of([] { expect_clean(); });
    EXPECT_NE(text.find("in stream 1 of device 0 was not ended. Call cudaStreamEndCapture"),
              std::string::npos)
        << text;
}
TEST_F(Graphs, AStreamThatWasNotJoined) {
    const cudaStream_t s = new_stream(), t = new_stream();
    begin(s);
    enqueue_kernel(s, "first", [] {});
    order(s, t);
    enqueue_kernel(t, "lost", [] {});
    cudaGraph_t g{};
    EXPECT_EQ(sentence_of([&] { cudaStreamEndCapture(s, &g); }),
              "cudaStreamEndCapture in stream 1 of device 0, which does not wait for 'lost' of "
              "stream 2 of device 0: cudaErrorStreamCaptureUnjoined. Record an event there, and "
              "wait for it.");
}
TEST_F(Graphs, ACaptureEndedInAnotherStream) {
    const cudaStream_t s = new_stream(), t = new_stream();
    begin(s);
    order(s, t);
    cudaGraph_t g{};
    EXPECT_EQ(sentence_of([&] { cudaStreamEndCapture(t, &g); }),
              "cudaStreamEndCapture in stream 2 of device 0, but the capture began in stream 1 of "
              "device 0: cudaErrorStreamCaptureUnmatched.");
}
TEST_F(Graphs, ACaptureEndedByAnotherThread) {
    const cudaStream_t s = new_stream();
    begin(s);
    std::string text;
    std::thread([&] {
        cudaGraph_t g{};
        text = sentence_of([&] { cudaStreamEndCapture(s, &g); });
    }).join();
    EXPECT_EQ(text,
              "cudaStreamEndCapture in stream 1 of device 0 by another thread than began it: "
              "cudaErrorStreamCaptureWrongThread.");
}
TEST_F(Graphs, ACaptureThatWasNotBegunOrBegunTwiceOrInTheDefaultStream) {
    cudaGraph_t g{};
    const cudaStream_t s = new_stream();
    EXPECT_EQ(sentence_of([&] { cudaStreamEndCapture(s, &g); }),
              "cudaStreamEndCapture in stream 1 of device 0, which is not captured.");
    start({});
    const cudaStream_t t = new_stream();
    begin(t);
    EXPECT_EQ(sentence_of([&] { begin(t); }),
              "cudaStreamBeginCapture in stream 1 of device 0, which is captured already.");
    start({});
    EXPECT_EQ(
        sentence_of([] { begin(nullptr); }),
        "cudaStreamBeginCapture in the default stream of device 0, which cannot be captured.");
}
TEST_F(Graphs, EventsAcrossTheBorderOfACapture) {
    cudaStream_t s = new_stream(), t = new_stream();
    begin(s);
    const std::string in = sentence_of([&] {
        const cudaEvent_t e = new_event();
        ok(cudaEventRecord(e, t));
        ok(cudaStreamWaitEvent(s, e, 0));
    });
    EXPECT_NE(in.find("cudaErrorStreamCaptureIsolation"), std::string::npos) << in;
    const auto after = [&](auto f) {
        start({});
        s = new_stream();
        const cudaEvent_t e = new_event();
        captured(s, [&] { ok(cudaEventRecord(e, s)); });
        return sentence_of([&] { f(e); });
    };
    const std::string out = after([&](cudaEvent_t e) { cudaStreamWaitEvent(new_stream(), e, 0); });
    EXPECT_NE(out.find("in a capture that has ended: cudaErrorCapturedEvent"), std::string::npos)
        << out;
    const std::string host = after([](cudaEvent_t e) { cudaEventSynchronize(e); });
    EXPECT_NE(host.find("whose last record was captured: cudaErrorCapturedEvent"),
              std::string::npos)
        << host;
}
TEST_F(Graphs, TwoCapturesAreNotJoined) {
    const cudaStream_t s = new_stream(), t = new_stream();
    begin(s);
    begin(t);
    const std::string text = sentence_of([&] { order(s, t); });
    EXPECT_NE(text.find("would join two captures: cudaErrorStreamCaptureMerge"), std::string::npos)
        << text;
}
TEST_F(Graphs, TheDefaultStreamBesideACaptureOfABlockingStream) {
    const cudaStream_t s = new_stream(cudaStreamDefault);
    begin(s);
    const std::string text = sentence_of([] { enqueue_kernel(nullptr, "k", [] {}); });
    EXPECT_NE(text.find("cudaErrorStreamCaptureImplicit"), std::string::npos) << text;
}
TEST_F(Graphs, AGraphWhoseMemoryWasFreed) {
    int *const x = device_memory(1), *const from = pinned_memory(1);
    const cudaStream_t s = new_stream();
    const cudaGraphExec_t g = captured(s, [&] { copy(x, from, 1, s); });
    ok(cudaFree(x));
    EXPECT_EQ(sentence_of([&] { cudaGraphLaunch(g, s); }),
              "cudaGraphLaunch of instance 1 of graph 1: 'copy host to device of 4 bytes' writes "
              "device memory 1 of device 0 (4 bytes), which cudaFree freed.");
}
TEST_F(Graphs, AGraphWhoseKernelsMemoryWasFreed) {
    int* const x = device_memory(1);
    const cudaStream_t s = new_stream();
    const cudaGraphExec_t g = captured(s, [&] { add(x, 1, s); });
    ok(cudaFree(x));
    ok(cudaGraphLaunch(g, s));
    EXPECT_EQ(sentence_of([&] { cudaStreamSynchronize(s); }),
              "'add of instance 1 of graph 1' (stream 1 of device 0) writes device memory 1 of "
              "device 0 (4 bytes), which cudaFree freed.");
}
TEST_F(Graphs, AGraphThatWasDestroyed) {
    const cudaStream_t s = new_stream();
    const cudaGraphExec_t g = captured(s, [] {});
    ok(cudaGraphExecDestroy(g));
    EXPECT_EQ(sentence_of([&] { cudaGraphLaunch(g, s); }),
              "cudaGraphLaunch: instance 1 of graph 1 was destroyed by cudaGraphExecDestroy.");
}
TEST_F(Graphs, LeakedGraphsAreNamed) {
    const cudaStream_t s = new_stream();
    begin(s);
    cudaGraph_t graph{};
    cudaGraphExec_t executable{};
    ok(cudaStreamEndCapture(s, &graph));
    ok(cudaGraphInstantiate(&executable, graph, 0));
    ok(cudaStreamDestroy(s));
    EXPECT_EQ(sentence_of([] { expect_clean(); }),
              "not released: graph 1, instance 1 of graph 1. Free and destroy what was created.");
}

}  // namespace
