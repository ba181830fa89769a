// What is believed of NCCL. One program for the double and for libnccl: what holds on the double
// and fails on GPUs is a fault of the double. Statements cite NVIDIA's NCCL documentation where
// they rest on it; those marked "observed" do not.
// Run:  nccl.contract.real   exits with 77 (skipped) without a GPU, after what needs none; what
//                            needs two GPUs is skipped where there is one
//       nccl.contract.late, .eager, .random   on the double
#include <gtest/gtest.h>

#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#ifdef GX_CUDA_DOUBLED
#include <gx/nccl_testing/nccl.hpp>
#endif

namespace {

#define OK(call) ASSERT_EQ((call), 0)

/// A call that NCCL refuses with `code`. The double ends such a call with a sentence.
template <class F>
void expect_refused(ncclResult_t code, F f) {
#ifdef GX_CUDA_DOUBLED
    (void)code;
    EXPECT_THROW(f(), gx::cuda_testing::Misuse);
#else
    EXPECT_STREQ(ncclGetErrorString(f()), ncclGetErrorString(code));
#endif
}

/// One communicator of `ranks` ranks, driven by one thread; each with a stream and two buffers.
class Nccl : public ::testing::Test {
protected:
    static constexpr std::size_t count = 1000;
    void SetUp() override {
#ifdef GX_CUDA_DOUBLED
        auto o = gx::cuda_testing::options_from_environment();
        o.check_at_exit = false;
        gx::cuda_testing::reset(o);
#endif
        int devices = 0;
        OK(cudaGetDeviceCount(&devices));
        ranks_ = std::min(devices, 4);
        comms_.resize(std::size_t(ranks_));
        OK(ncclCommInitAll(comms_.data(), ranks_, nullptr));
        for (int r = 0; r < ranks_; ++r) {
            OK(cudaSetDevice(r));
            cudaStream_t s{};
            OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
            streams_.push_back(s);
            x_.push_back(buffer(float(r + 1)));
            y_.push_back(buffer(-1));
        }
    }
    void TearDown() override {
        for (const ncclComm_t c : comms_) EXPECT_EQ(ncclCommDestroy(c), ncclSuccess);
        for (auto* const all : {&x_, &y_})
            for (float* const p : *all) EXPECT_EQ(cudaFree(p), cudaSuccess);
        for (const cudaStream_t s : streams_) EXPECT_EQ(cudaStreamDestroy(s), cudaSuccess);
    }
    static float* buffer(float value) {
        float* p = nullptr;
        EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&p), count * sizeof(float)), cudaSuccess);
        const std::vector<float> v(count, value);
        EXPECT_EQ(cudaMemcpy(p, v.data(), count * sizeof(float), cudaMemcpyHostToDevice),
                  cudaSuccess);
        EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);  // the copy may go on
        return p;
    }
    static std::vector<float> read(const float* p) {
        std::vector<float> v(count);
        EXPECT_EQ(cudaMemcpy(v.data(), p, count * sizeof(float), cudaMemcpyDeviceToHost),
                  cudaSuccess);
        return v;
    }
    void wait() {
        for (const cudaStream_t s : streams_) OK(cudaStreamSynchronize(s));
    }
    template <class F>
    void group(F f) {
        OK(ncclGroupStart());
        for (int r = 0; r < ranks_; ++r) OK(f(r, std::size_t(r)));
        OK(ncclGroupEnd());
    }
    static void settle(ncclComm_t comm) {
        ncclResult_t state = ncclInProgress;
        while (state == ncclInProgress) OK(ncclCommGetAsyncError(comm, &state));
        EXPECT_EQ(state, ncclSuccess);
    }

    int ranks_ = 0;
    std::vector<ncclComm_t> comms_{};
    std::vector<cudaStream_t> streams_{};
    std::vector<float*> x_{}, y_{};
};

// ---- Communicators ---------------------------------------------------------------------------

TEST_F(Nccl, KnowsCountRankAndDevice) {
    for (int r = 0; r < ranks_; ++r) {
        int n = 0, rank = -1, device = -1;
        OK(ncclCommCount(comms_[std::size_t(r)], &n));
        OK(ncclCommUserRank(comms_[std::size_t(r)], &rank));
        OK(ncclCommCuDevice(comms_[std::size_t(r)], &device));
        EXPECT_EQ(n, ranks_);
        EXPECT_EQ(rank, r);
        EXPECT_EQ(device, r);
        ncclResult_t state = ncclInProgress;
        OK(ncclCommGetAsyncError(comms_[std::size_t(r)], &state));
        EXPECT_EQ(state, ncclSuccess);
    }
}
TEST_F(Nccl, RefusesOneDeviceForTwoRanks) {
    ncclComm_t comms[2];
    const int devices[] = {0, 0};
    EXPECT_EQ(ncclCommInitAll(comms, 2, devices), ncclInvalidUsage);
}
TEST_F(Nccl, RefusesRanksOutOfRange) {
    ncclUniqueId id;
    OK(ncclGetUniqueId(&id));
    ncclComm_t comm{};
    expect_refused(ncclInvalidArgument, [&] { return ncclCommInitRank(&comm, 2, id, 2); });
}
TEST_F(Nccl, JoinsThreads) {  // "ncclCommInitRank": each from a thread of its own
    ncclUniqueId id;
    OK(ncclGetUniqueId(&id));
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks_; ++r)
        threads.emplace_back([&, r] {
            OK(cudaSetDevice(r));
            ncclComm_t comm{};
            OK(ncclCommInitRank(&comm, ranks_, id, r));
            float* const x = x_[std::size_t(r)];
            OK(ncclAllReduce(x, x, count, ncclFloat, ncclSum, comm, streams_[std::size_t(r)]));
            OK(cudaStreamSynchronize(streams_[std::size_t(r)]));
            OK(ncclCommFinalize(comm));
            OK(ncclCommDestroy(comm));
        });
    for (auto& t : threads) t.join();
    const float sum = float(ranks_ * (ranks_ + 1) / 2);
    EXPECT_EQ(read(x_[0]), std::vector<float>(count, sum));
}
TEST_F(Nccl, DoesNotBlockWhereItIsToldNotTo) {  // "Creating a communicator with options"
    ncclUniqueId id;
    OK(ncclGetUniqueId(&id));
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks_; ++r)
        threads.emplace_back([&, r] {
            OK(cudaSetDevice(r));
            ncclComm_t comm{};
            ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
            config.blocking = 0;
            const auto begun = ncclCommInitRankConfig(&comm, ranks_, id, r, &config);
            EXPECT_TRUE(begun == ncclSuccess || begun == ncclInProgress);
            settle(comm);
            float* const x = x_[std::size_t(r)];
            const auto queued =
                ncclAllReduce(x, x, count, ncclFloat, ncclMax, comm, streams_[std::size_t(r)]);
            EXPECT_TRUE(queued == ncclSuccess || queued == ncclInProgress);
            settle(comm);
            OK(cudaStreamSynchronize(streams_[std::size_t(r)]));
            const auto ended = ncclCommFinalize(comm);
            EXPECT_TRUE(ended == ncclSuccess || ended == ncclInProgress);
            settle(comm);
            OK(ncclCommDestroy(comm));
        });
    for (auto& t : threads) t.join();
    EXPECT_EQ(read(x_[0]), std::vector<float>(count, float(ranks_)));
}
// src/group.cc, ncclAsyncLaunch: "Blocking and nonblocking communicators are not allowed in the
// same group."
TEST_F(Nccl, RefusesABlockingAndANonBlockingOneInOneGroup) {
    ncclUniqueId ids[2];
    ncclComm_t comms[2]{};
    for (ncclUniqueId& id : ids) OK(ncclGetUniqueId(&id));
    OK(cudaSetDevice(0));
    OK(ncclGroupStart());
    OK(ncclCommInitRank(&comms[0], 1, ids[0], 0));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    expect_refused(ncclInvalidArgument,
                   [&] { return ncclCommInitRankConfig(&comms[1], 1, ids[1], 0, &config); });
    (void)ncclGroupEnd();
}
TEST_F(Nccl, SplitsByColorAndOrdersByKey) {  // "ncclCommSplit"
    std::vector<ncclComm_t> parts(comms_.size());
    group([&](int r, std::size_t i) {
        return ncclCommSplit(comms_[i], r == 1 ? NCCL_SPLIT_NOCOLOR : 0, -r, &parts[i], nullptr);
    });
    for (int r = 0; r < ranks_; ++r) {
        if (r == 1) {
            EXPECT_EQ(parts[1], nullptr);
            continue;
        }
        int rank = -1;
        OK(ncclCommUserRank(parts[std::size_t(r)], &rank));
        const int others = ranks_ - 1 - r - (r == 0 && ranks_ > 1 ? 1 : 0);
        EXPECT_EQ(rank, others);
        OK(ncclCommDestroy(parts[std::size_t(r)]));
    }
}
TEST_F(Nccl, AbortsWhatWaits) {  // "ncclCommAbort": operations on the device end
    if (ranks_ < 2) GTEST_SKIP() << "needs two GPUs";
    std::vector<ncclComm_t> comms(2);
    OK(ncclCommInitAll(comms.data(), 2, nullptr));
    OK(ncclRecv(y_[0], 1, ncclFloat, 1, comms[0], streams_[0]));
    EXPECT_EQ(cudaStreamQuery(streams_[0]), cudaErrorNotReady);
    for (const ncclComm_t c : comms) OK(ncclCommAbort(c));
    OK(cudaStreamSynchronize(streams_[0]));
}

// ---- Communication ---------------------------------------------------------------------------

TEST_F(Nccl, SumsToIdenticalResults) {
    group([&](int, std::size_t i) {
        return ncclAllReduce(x_[i], y_[i], count, ncclFloat, ncclSum, comms_[i], streams_[i]);
    });
    wait();
    const float sum = float(ranks_ * (ranks_ + 1) / 2);
    for (const float* const y : y_) EXPECT_EQ(read(y), std::vector<float>(count, sum));
}
TEST_F(Nccl, AveragesFloatsWithoutTheirSum) {  // src/enqueue.cc, hostToDevRedOp
    const std::vector<float> large(count, 3e38f);
    for (int r = 0; r < ranks_; ++r) {
        OK(cudaSetDevice(r));
        OK(cudaMemcpy(x_[std::size_t(r)], large.data(), count * sizeof(float),
                      cudaMemcpyHostToDevice));
        OK(cudaStreamSynchronize(nullptr));  // the copy may go on
    }
    group([&](int, std::size_t i) {
        return ncclAllReduce(x_[i], y_[i], count, ncclFloat, ncclAvg, comms_[i], streams_[i]);
    });
    wait();
    for (const float* const y : y_)
        for (const float average : read(y)) ASSERT_FLOAT_EQ(average, 3e38f);
}
TEST_F(Nccl, SendsToItselfWithinAGroup) {
    group([&](int r, std::size_t i) {
        const auto sent = ncclSend(x_[i], count, ncclFloat, r, comms_[i], streams_[i]);
        return sent != ncclSuccess ? sent
                                   : ncclRecv(y_[i], count, ncclFloat, r, comms_[i], streams_[i]);
    });
    wait();
    for (int r = 0; r < ranks_; ++r)
        EXPECT_EQ(read(y_[std::size_t(r)]), std::vector<float>(count, float(r + 1)));
}
TEST_F(Nccl, PassesARingOnAndTheKthSendMeetsTheKthReceive) {
    group([&](int r, std::size_t i) {
        ncclResult_t result = ncclSuccess;
        for (int k = 0; k < 2 && result == ncclSuccess; ++k) {
            result = ncclSend(x_[i] + k, 1, ncclFloat, (r + 1) % ranks_, comms_[i], streams_[i]);
            if (result == ncclSuccess)
                result = ncclRecv(y_[i] + k, 1, ncclFloat, (r + ranks_ - 1) % ranks_, comms_[i],
                                  streams_[i]);
        }
        return result;
    });
    wait();
    for (int r = 0; r < ranks_; ++r) {
        const auto got = read(y_[std::size_t(r)]);
        const float from = float((r + ranks_ - 1) % ranks_ + 1);
        EXPECT_EQ(got[0], from);
        EXPECT_EQ(got[1], from);
        EXPECT_EQ(got[2], -1.0f);
    }
}
TEST_F(Nccl, BroadcastsGathersAndScattersInPlace) {
    const std::size_t block = count / 4;
    group([&](int r, std::size_t i) {
        return ncclReduceScatter(x_[i], x_[i] + std::size_t(r) * block, block, ncclFloat, ncclSum,
                                 comms_[i], streams_[i]);
    });
    group([&](int r, std::size_t i) {
        return ncclAllGather(x_[i] + std::size_t(r) * block, x_[i], block, ncclFloat, comms_[i],
                             streams_[i]);
    });
    group([&](int, std::size_t i) {
        return ncclBroadcast(x_[i], y_[i], block, ncclFloat, 0, comms_[i], streams_[i]);
    });
    wait();
    const float sum = float(ranks_ * (ranks_ + 1) / 2);
    for (const float* const y : y_) {
        EXPECT_EQ(read(y)[0], sum);
        EXPECT_EQ(read(y)[block - 1], sum);
    }
}
TEST_F(Nccl, GroupsNestAndTheOutermostEndCounts) {
    OK(ncclGroupStart());
    group([&](int, std::size_t i) {
        return ncclAllReduce(x_[i], y_[i], 1, ncclFloat, ncclSum, comms_[i], streams_[i]);
    });
    OK(ncclGroupEnd());
    wait();
    EXPECT_EQ(read(y_[0])[0], float(ranks_ * (ranks_ + 1) / 2));
}
TEST_F(Nccl, IsCaptured) {  // "Using NCCL with CUDA Graphs"
    std::vector<cudaGraphExec_t> graphs(comms_.size());
    OK(ncclGroupStart());
    for (int r = 0; r < ranks_; ++r) {
        const auto i = std::size_t(r);
        OK(cudaStreamBeginCapture(streams_[i], cudaStreamCaptureModeRelaxed));
        OK(ncclAllReduce(x_[i], x_[i], 1, ncclFloat, ncclSum, comms_[i], streams_[i]));
    }
    OK(ncclGroupEnd());
    for (std::size_t i = 0; i < graphs.size(); ++i) {
        cudaGraph_t graph{};
        OK(cudaStreamEndCapture(streams_[i], &graph));
        OK(cudaGraphInstantiate(&graphs[i], graph, 0));
        OK(cudaGraphDestroy(graph));
    }
    for (int t = 0; t < 2; ++t)
        for (std::size_t i = 0; i < graphs.size(); ++i) OK(cudaGraphLaunch(graphs[i], streams_[i]));
    wait();
    EXPECT_EQ(read(x_[0])[0], float(ranks_ * (ranks_ + 1) / 2 * ranks_));
    for (const cudaGraphExec_t g : graphs) OK(cudaGraphExecDestroy(g));
}
TEST_F(Nccl, RefusesPeersOutOfRange) {
    expect_refused(ncclInvalidArgument,
                   [&] { return ncclSend(x_[0], 1, ncclFloat, ranks_, comms_[0], streams_[0]); });
}
TEST_F(Nccl, RegistersAndAllocates) {  // "User Buffer Registration Functions"
    void *p = nullptr, *handle = nullptr;
    OK(cudaSetDevice(0));
    OK(ncclMemAlloc(&p, 1 << 20));
    OK(ncclCommRegister(comms_[0], p, 1 << 20, &handle));
    OK(ncclCommDeregister(comms_[0], handle));
    OK(ncclMemFree(p));
}

// ---- What needs no GPU -----------------------------------------------------------------------

TEST(NoDevice, Version) {
    int version = 0;
    OK(ncclGetVersion(&version));
    EXPECT_EQ(version / 10000, NCCL_MAJOR);
    EXPECT_EQ(ncclGetVersion(nullptr), ncclInvalidArgument);
}
TEST(NoDevice, ErrorTexts) {  // observed with 2.28
    const char* const texts[] = {"no error",
                                 "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
                                 "unhandled system error (run with NCCL_DEBUG=INFO for details)",
                                 "internal error - please report this issue to the NCCL developers",
                                 "invalid argument (run with NCCL_DEBUG=WARN for details)",
                                 "invalid usage (run with NCCL_DEBUG=WARN for details)",
                                 "remote process exited or there was a network error",
                                 "NCCL operation in progress",
                                 "unknown result code"};
    for (int i = 0; i <= ncclNumResults; ++i)
        EXPECT_STREQ(ncclGetErrorString(ncclResult_t(i)), texts[i]);
}
TEST(NoDevice, KeepsOneLastErrorForAll) {  // "ncclGetLastError"; observed: of calls without one too
    ncclComm_t comm{};
    EXPECT_NE(ncclCommInitAll(&comm, -1, nullptr), ncclSuccess);
    EXPECT_STRNE(ncclGetLastError(nullptr), "");
}
TEST(NoDevice, NullHandlesAreEndedWithoutAnError) {  // observed
    EXPECT_EQ(ncclCommFinalize(nullptr), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(nullptr), ncclSuccess);
    EXPECT_EQ(ncclCommAbort(nullptr), ncclSuccess);
}
TEST(NoDevice, NullHandlesAreRefused) {
    int n = 0;
    ncclResult_t error = ncclSuccess;
    expect_refused(ncclInvalidArgument, [&] { return ncclCommCount(nullptr, &n); });
    expect_refused(ncclInvalidArgument, [&] { return ncclCommGetAsyncError(nullptr, &error); });
    expect_refused(ncclInvalidArgument,
                   [] { return ncclSend(nullptr, 1, ncclInt, 0, nullptr, nullptr); });
}
TEST(NoDevice, AGroupEndsAfterItsStart) {
    OK(ncclGroupStart());
    OK(ncclGroupEnd());
    expect_refused(ncclInvalidUsage, [] { return ncclGroupEnd(); });
}
TEST(NoDevice, CommunicatorsNeedADevice) {
#ifdef GX_CUDA_DOUBLED
    gx::cuda_testing::reset({.devices = 0, .check_at_exit = false});
#endif
    int devices = 0;
    if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0)
        GTEST_SKIP() << "there are some";
    ncclComm_t comm{};
    void* p = nullptr;
    EXPECT_EQ(ncclCommInitAll(&comm, 1, nullptr), ncclUnhandledCudaError);
    EXPECT_EQ(ncclMemAlloc(&p, 4), ncclUnhandledCudaError);
    EXPECT_EQ(ncclMemFree(nullptr), ncclUnhandledCudaError);
    cudaGetLastError();
}

}  // namespace
