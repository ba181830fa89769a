// Communicators: how they begin, divide, end and fail.
#include "nccl_double.hpp"

#include <atomic>

namespace {

using namespace double_test;
using Ints = std::vector<int>;

class NcclCommunicators : public Double {};

ncclUniqueId new_id() {
    ncclUniqueId id;
    ok(ncclGetUniqueId(&id));
    return id;
}
ncclConfig_t non_blocking() {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return config;
}
ncclResult_t poll(ncclComm_t comm) {
    ncclResult_t error = ncclInProgress;
    ok(ncclCommGetAsyncError(comm, &error));
    return error;
}
/// Until it is not in progress.
ncclResult_t settle(ncclComm_t comm) {
    ncclResult_t error = ncclInProgress;
    for (int i = 0; i < 1000 && error == ncclInProgress; ++i) error = poll(comm);
    return error;
}
/// Communicators of two ranks that do not block, in progress.
std::vector<ncclComm_t> begin_two() {
    const ncclUniqueId id = new_id();
    std::vector<ncclComm_t> comms(2);
    for (int r = 0; r < 2; ++r) {
        ok(cudaSetDevice(r));
        ncclConfig_t config = non_blocking();
        EXPECT_EQ(ncclCommInitRankConfig(&comms[std::size_t(r)], 2, id, r, &config),
                  ncclInProgress);
    }
    return comms;
}

// ---- Beginning -------------------------------------------------------------------------------

TEST_F(NcclCommunicators, KnowTheirRankCountAndDevice) {
    ncclComm_t comms[3];
    const int devices[] = {4, 0, 7};
    ok(ncclCommInitAll(comms, 3, devices));
    for (int r = 0; r < 3; ++r) {
        int count = 0, rank = -1, device = -1;
        ok(ncclCommCount(comms[r], &count));
        ok(ncclCommUserRank(comms[r], &rank));
        ok(ncclCommCuDevice(comms[r], &device));
        EXPECT_EQ(count, 3);
        EXPECT_EQ(rank, r);
        EXPECT_EQ(device, devices[r]);
    }
    for (const ncclComm_t c : comms) ok(ncclCommDestroy(c));
    expect_clean();
}
/// What the host alone can say does not depend on a GPU: neither a new id, nor what one is.
TEST_F(NcclCommunicators, SayWhatTheyAreBesideALostGpu) {
    ncclComm_t comm{};
    const int device = 0;
    ok(ncclCommInitAll(&comm, 1, &device));
    ok(cudaSetDevice(0));
    lose_device(0, cudaErrorECCUncorrectable);
    int count = 0;
    ok(ncclCommCount(comm, &count));
    EXPECT_EQ(count, 1);
    EXPECT_EQ(poll(comm), ncclSuccess);
    (void)new_id();
    EXPECT_NE(cudaDeviceSynchronize(), cudaSuccess);
    (void)ncclCommAbort(comm);
}
TEST_F(NcclCommunicators, AreMadeByOneThreadWithinAGroup) {
    const ncclUniqueId id = new_id();
    ncclComm_t comms[2];
    ok(ncclGroupStart());
    for (int r = 0; r < 2; ++r) {
        ok(cudaSetDevice(r));
        ok(ncclCommInitRank(&comms[r], 2, id, r));
    }
    ok(ncclGroupEnd());
    for (const ncclComm_t c : comms) ok(ncclCommDestroy(c));
    expect_clean();
}
TEST_F(NcclCommunicators, OneThreadWithoutAGroupWaitsForEver) {
    const std::string s = sentence_of([] {
        ncclComm_t comm{};
        ok(ncclCommInitRank(&comm, 2, new_id(), 0));
    });
    expect_has(s, "deadlock: ncclCommInitRank by rank 0 of id 1 for rank 1 waits");
}
TEST_F(NcclCommunicators, RefuseWrongRanksAndIds) {
    ncclComm_t comm{};
    ncclUniqueId unknown{};
    const auto id = [] { return new_id(); };
    expect_has(sentence_of([&] { ok(ncclCommInitRank(&comm, 2, id(), 2)); }), "rank 2 of 2 ranks");
    expect_has(sentence_of([&] { ok(ncclCommInitRank(&comm, 1, unknown, 0)); }), "did not return");
    expect_has(sentence_of([&] {
                   const auto one = id();
                   ok(ncclCommInitRank(&comm, 1, one, 0));
                   ok(ncclCommInitRank(&comm, 1, one, 0));
               }),
               "has made its communicator");
    expect_has(sentence_of([&] {
                   const auto one = id();
                   ok(ncclGroupStart());
                   ok(ncclCommInitRank(&comm, 2, one, 0));
                   ok(ncclCommInitRank(&comm, 3, one, 1));
               }),
               "rank 1 joins id 3 with 3 ranks, and rank 0 with 2");
    start({});
    expect_has(sentence_of([&] {
                   const auto one = id();
                   ok(ncclGroupStart());
                   ok(ncclCommInitRank(&comm, 2, one, 1));
                   ok(ncclCommInitRank(&comm, 2, one, 1));
               }),
               "two ranks 1 join id 1");
    ncclConfig_t config{};
    EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id(), 0, &config), ncclInvalidArgument);
    config = non_blocking();
    config.blocking = 7;
    EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id(), 0, &config), ncclInvalidArgument);
}
TEST_F(NcclCommunicators, RefuseOneDeviceForTwoRanks) {
    ncclComm_t comms[2];
    const int devices[] = {3, 3};
    EXPECT_EQ(ncclCommInitAll(comms, 2, devices), ncclInvalidUsage);
    EXPECT_EQ(comms[0], nullptr);
    EXPECT_EQ(comms[1], nullptr);
    expect_clean();
}
TEST_F(NcclCommunicators, DoNotReachADeviceThatIsCutOff) {
    set_unreachable(0, 1);
    ncclComm_t comms[2];
    EXPECT_EQ(ncclCommInitAll(comms, 2, nullptr), ncclSystemError);
    const int devices[] = {0, 2};
    ok(ncclCommInitAll(comms, 2, devices));
}
TEST_F(NcclCommunicators, NeedADevice) {
    start({.devices = 0});
    ncclComm_t comm{};
    EXPECT_EQ(ncclCommInitAll(&comm, 1, nullptr), ncclUnhandledCudaError);
    int version = 0;
    ok(ncclGetVersion(&version));
    EXPECT_EQ(version, NCCL_VERSION_CODE);
    set_options({.version = 30000});
    ok(ncclGetVersion(&version));
    EXPECT_EQ(version, 30000);
}

// ---- Non-blocking ----------------------------------------------------------------------------

TEST_F(NcclCommunicators, ThatDoNotBlockAreInProgressUntilAllHaveCome) {
    const ncclUniqueId id = new_id();
    ncclComm_t comms[2];
    ncclConfig_t config = non_blocking();
    EXPECT_EQ(ncclCommInitRankConfig(&comms[0], 2, id, 0, &config), ncclInProgress);
    EXPECT_EQ(poll(comms[0]), ncclInProgress);
    int count = 0;
    expect_has(sentence_of([&] { ok(ncclCommCount(comms[0], &count)); }), "is in progress");
    ok(cudaSetDevice(1));
    EXPECT_EQ(ncclCommInitRankConfig(&comms[1], 2, id, 1, &config), ncclInProgress);
    for (const ncclComm_t c : comms) EXPECT_EQ(settle(c), ncclSuccess);
    for (const ncclComm_t c : comms) EXPECT_EQ(ncclCommFinalize(c), ncclInProgress);
    for (const ncclComm_t c : comms) EXPECT_EQ(settle(c), ncclSuccess);
    for (const ncclComm_t c : comms) ok(ncclCommDestroy(c));
}
/// All work is done, and it takes some polls more; seeds do and do not.
TEST_F(NcclCommunicators, ThatDoNotBlockAreFinalizedBehindAPoll) {
    int finalizing = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        start({.seed = seed});
        const auto comms = begin_two();
        for (const ncclComm_t c : comms) EXPECT_EQ(settle(c), ncclSuccess);
        for (const ncclComm_t c : comms) EXPECT_EQ(ncclCommFinalize(c), ncclInProgress);
        finalizing += poll(comms[0]) == ncclInProgress;
        for (const ncclComm_t c : comms) EXPECT_EQ(settle(c), ncclSuccess);
        for (const ncclComm_t c : comms) ok(ncclCommDestroy(c));
        expect_clean();
    }
    EXPECT_GT(finalizing, 5);
    EXPECT_LT(finalizing, 20);
}
TEST_F(NcclCommunicators, ThatDoNotBlockAreNotUsedBeforeAPollSaysThatTheyHaveJoined) {
    set_options({.polls_max = 0});
    const auto comms = begin_two();
    int count = 0;
    expect_has(sentence_of([&] { ok(ncclCommCount(comms[0], &count)); }), "is in progress");
    EXPECT_EQ(poll(comms[0]), ncclSuccess);
    ok(ncclCommCount(comms[0], &count));
    EXPECT_EQ(count, 2);
}
TEST_F(NcclCommunicators, ThatDoNotBlockAreNotDestroyedWhileTheyAreFinalized) {
    set_options({.polls_max = 0});
    const auto comms = begin_two();
    for (const ncclComm_t c : comms) EXPECT_EQ(settle(c), ncclSuccess);
    EXPECT_EQ(ncclCommFinalize(comms[0]), ncclInProgress);
    expect_has(sentence_of([&] { ok(ncclCommDestroy(comms[0])); }), "finalization");
    EXPECT_EQ(poll(comms[0]), ncclSuccess);
    ok(ncclCommDestroy(comms[0]));
    EXPECT_EQ(ncclCommFinalize(comms[1]), ncclInProgress);
    ok(ncclCommAbort(comms[1]));
}
TEST_F(NcclCommunicators, ThatBlockAndThatDoNotAreNotMadeInOneGroup) {
    for (const int first : {0, 1}) {
        start({});
        expect_has(sentence_of([&] {
                       ok(ncclGroupStart());
                       ncclComm_t comms[2];
                       for (const int k : {first, 1 - first}) {
                           ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
                           config.blocking = k;
                           ok(ncclCommInitRankConfig(&comms[k], 1, new_id(), 0, &config));
                       }
                   }),
                   "ncclCommInitRankConfig in a group that has an init or a split of ");
    }
    start({});  // parts go by what was divided
    const auto comms = begin_two();
    for (const ncclComm_t c : comms) EXPECT_EQ(settle(c), ncclSuccess);
    Ranks blocking(1);
    ncclComm_t parts[2];
    ok(ncclGroupStart());
    ok(ncclCommSplit(blocking.comm(0), 0, 0, &parts[0], nullptr));
    expect_has(sentence_of([&] { ok(ncclCommSplit(comms[0], 0, 0, &parts[1], nullptr)); }),
               "ncclCommSplit in a group that has an init or a split of one that blocks");
}
/// Two groups may differ.
TEST_F(NcclCommunicators, ThatBlockAndThatDoNotAreMadeInTwoGroups) {
    ncclComm_t comms[2];
    for (const int k : {0, 1}) {
        ok(ncclGroupStart());
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = k;
        ok(ncclCommInitRankConfig(&comms[k], 1, new_id(), 0, &config));
        EXPECT_EQ(ncclGroupEnd(), k == 0 ? ncclInProgress : ncclSuccess);
    }
    for (const ncclComm_t c : comms) EXPECT_EQ(settle(c), ncclSuccess);
    for (const ncclComm_t c : comms) ok(ncclCommAbort(c));
    expect_clean();
}
/// What they are given may be queued by a later poll only; seeds do and do not.
TEST_F(NcclCommunicators, ThatDoNotBlockQueueTheirWorkBehindAPoll) {
    int deferred = 0, stale = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        start({.seed = seed});
        auto comms = begin_two();
        std::vector<cudaStream_t> streams;
        std::vector<int*> x;
        for (int r = 0; r < 2; ++r) {
            const auto i = std::size_t(r);
            ok(cudaSetDevice(r));
            EXPECT_EQ(settle(comms[i]), ncclSuccess);
            streams.push_back(new_stream());
            x.push_back(device_memory(1));
            ok(cudaMemcpy(x[i], &r, 4, cudaMemcpyHostToDevice));
            ok(cudaStreamSynchronize(nullptr));
            const auto result =
                ncclAllReduce(x[i], x[i], 1, ncclInt, ncclSum, comms[i], streams[i]);
            EXPECT_TRUE(result == ncclSuccess || result == ncclInProgress);
            deferred += result == ncclInProgress;
            if (result == ncclInProgress)  // a program that does not poll finds nothing to wait for
                stale += cudaStreamQuery(streams[i]) == cudaSuccess;
        }
        for (const ncclComm_t c : comms) EXPECT_EQ(settle(c), ncclSuccess);
        for (int r = 0; r < 2; ++r) ok(cudaStreamSynchronize(streams[std::size_t(r)]));
        int sum = 0;
        ok(cudaMemcpy(&sum, x[0], 4, cudaMemcpyDeviceToHost));
        EXPECT_EQ(sum, 1);
    }
    EXPECT_GT(deferred, 5);
    EXPECT_EQ(stale, deferred);
}
/// Where an init fails there is no communicator to ask.
TEST_F(NcclCommunicators, LeaveOneLastErrorForAll) {
    EXPECT_STREQ(ncclGetLastError(nullptr), "");
    ncclComm_t comms[2]{};
    const int devices[] = {3, 3};
    EXPECT_EQ(ncclCommInitAll(comms, 2, devices), ncclInvalidUsage);
    expect_has(ncclGetLastError(nullptr), "ncclCommInitAll: ");
    expect_has(ncclGetLastError(nullptr), "device 3");
    EXPECT_EQ(ncclCommInitAll(comms, 0, nullptr), ncclInvalidArgument);
    EXPECT_EQ(std::string(ncclGetLastError(nullptr)),
              "ncclCommInitAll: " + std::string(ncclGetErrorString(ncclInvalidArgument)));
    ncclUniqueId id;
    ok(ncclGetUniqueId(&id));
    expect_has(ncclGetLastError(nullptr), "invalid argument");
    lose_device(0);
    EXPECT_EQ(ncclCommInitRank(comms, 1, id, 0), ncclUnhandledCudaError);
    expect_has(ncclGetLastError(nullptr), "ncclCommInitRank: unhandled cuda error");
}
/// Starts and ends of groups are the host's: what follows on another GPU is in no group.
TEST_F(NcclCommunicators, GroupsEndWhereTheirGpuHasFailed) {
    const int devices[] = {0, 1};
    ncclComm_t comms[2]{};
    std::vector<int*> x;
    std::vector<cudaStream_t> streams;
    for (int d = 0; d < 2; ++d) {
        ok(ncclCommInitAll(&comms[d], 1, &devices[d]));
        ok(cudaSetDevice(d));
        x.push_back(device_memory(2));
        ok(cudaMemset(x.back(), 0, 8));
        ok(cudaStreamSynchronize(nullptr));
        streams.push_back(new_stream());
    }
    const auto sum = [&](std::size_t d) {
        return ncclAllReduce(x[d], x[d] + 1, 1, ncclInt, ncclSum, comms[d], streams[d]);
    };
    ok(ncclGroupStart());
    ok(sum(1));
    lose_device(1, cudaErrorIllegalAddress);
    ok(ncclGroupStart());
    ok(ncclGroupEnd());
    EXPECT_EQ(ncclGroupEnd(), ncclUnhandledCudaError);
    ok(ncclGroupStart());
    ok(ncclGroupEnd());
    ok(ncclCommAbort(comms[1]));
    ok(cudaSetDevice(0));
    ok(sum(0));
    ok(cudaStreamSynchronize(streams[0]));
    EXPECT_EQ(gx::nccl_testing::counters().kernels, 1);
    ok(ncclCommDestroy(comms[0]));
    ok(cudaFree(x[0]));
    ok(cudaStreamDestroy(streams[0]));
    (void)cudaFree(x[1]);
    (void)cudaStreamDestroy(streams[1]);
    expect_clean();
}
TEST_F(NcclCommunicators, ThatFailToBeginAreAborted) {
    fail_init(2);
    auto comms = begin_two();
    EXPECT_EQ(poll(comms[0]), ncclInProgress);
    EXPECT_EQ(poll(comms[1]), ncclSystemError);
    expect_has(std::string(ncclGetLastError(comms[1])), "unhandled system error");
    for (const ncclComm_t c : comms) ok(ncclCommAbort(c));
    hang_init(1);
    comms = begin_two();
    for (const ncclComm_t c : comms) EXPECT_EQ(poll(c), ncclInProgress);
    for (const ncclComm_t c : comms) ok(ncclCommAbort(c));
    expect_clean();
}
TEST_F(NcclCommunicators, ABlockingInitReturnsItsFailure) {
    fail_init(1, ncclRemoteError);
    ncclComm_t comm{};
    EXPECT_EQ(ncclCommInitRank(&comm, 1, new_id(), 0), ncclRemoteError);
    EXPECT_EQ(comm, nullptr);
    expect_clean();
}
TEST_F(NcclCommunicators, AreRefusedAtOnce) {
    refuse_init(2);
    ncclComm_t comm{};
    ok(ncclCommInitRank(&comm, 1, new_id(), 0));
    ok(ncclCommDestroy(comm));
    ncclConfig_t config = non_blocking();
    const ncclUniqueId id = new_id();
    EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidUsage);
    EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInProgress);
    ok(ncclCommAbort(comm));
    expect_clean();
}

// ---- Division --------------------------------------------------------------------------------

TEST_F(NcclCommunicators, SplitByColorAndOrderByKey) {
    Ranks a(4);
    std::vector<ncclComm_t> parts(4);
    const int colors[] = {1, NCCL_SPLIT_NOCOLOR, 1, 1}, keys[] = {5, 0, 3, 5};
    a.group([&](int r) {
        return ncclCommSplit(a.comm(r), colors[r], keys[r], &parts[std::size_t(r)], nullptr);
    });
    EXPECT_EQ(parts[1], nullptr);
    const int order[] = {2, 0, 3};
    for (int i = 0; i < 3; ++i) {
        int rank = -1, device = -1;
        ok(ncclCommUserRank(parts[std::size_t(order[i])], &rank));
        ok(ncclCommCuDevice(parts[std::size_t(order[i])], &device));
        EXPECT_EQ(rank, i);
        EXPECT_EQ(device, order[i]);
        ok(ncclCommDestroy(parts[std::size_t(order[i])]));
    }
    a.destroy();
}
/// Two ranks that do not block, divided into one part; its communicators, in progress.
std::vector<ncclComm_t> divide_two(const std::vector<ncclComm_t>& comms) {
    std::vector<ncclComm_t> parts(2);
    for (const ncclComm_t c : comms) EXPECT_EQ(settle(c), ncclSuccess);
    for (std::size_t r = 0; r < 2; ++r) {
        ncclConfig_t config = non_blocking();
        EXPECT_EQ(ncclCommSplit(comms[r], 0, 0, &parts[r], &config), ncclInProgress);
        EXPECT_EQ(parts[r], nullptr) << "until a poll says that all ranks have come";
    }
    for (const ncclComm_t c : comms) EXPECT_EQ(settle(c), ncclSuccess);
    return parts;
}
/// The one that was divided no longer is; seeds are and are not.
TEST_F(NcclCommunicators, ThatDoNotBlockAreInProgressBehindTheOneThatWasDivided) {
    int connecting = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        start({.seed = seed});
        const auto comms = begin_two(), parts = divide_two(comms);
        connecting += poll(parts[0]) == ncclInProgress;
        for (const ncclComm_t c : parts) EXPECT_EQ(settle(c), ncclSuccess);
        for (const ncclComm_t c : parts) ok(ncclCommDestroy(c));
        for (const ncclComm_t c : comms) ok(ncclCommDestroy(c));
        expect_clean();
    }
    EXPECT_GT(connecting, 5);
    EXPECT_LT(connecting, 20);
    set_options({.polls_max = 0});
    const auto parts = divide_two(begin_two());
    int rank = -1;
    expect_has(sentence_of([&] { ok(ncclCommUserRank(parts[1], &rank)); }), "is in progress");
    EXPECT_EQ(poll(parts[1]), ncclSuccess);
    ok(ncclCommUserRank(parts[1], &rank));
    EXPECT_EQ(rank, 1);
}
TEST_F(NcclCommunicators, APartThatHangsOnOneRankIsAborted) {
    hang_part(1);
    const auto comms = begin_two(), parts = divide_two(comms);
    EXPECT_EQ(settle(parts[0]), ncclSuccess);
    EXPECT_EQ(settle(parts[1]), ncclInProgress);
    EXPECT_EQ(poll(comms[1]), ncclSuccess);
    for (const auto* const all : {&parts, &comms})
        for (const ncclComm_t c : *all) ok(ncclCommAbort(c));
    expect_clean();
}
TEST_F(NcclCommunicators, ShrinkBehindALostRank) {
    in_every_order([] {
        Ranks a(3);
        const auto x = a.each([](int r) { return Ints{r + 1}; });
        lose_rank(a.comm(2), 1);
        a.group([&](int r) {
            const auto i = std::size_t(r);
            return ncclAllReduce(x[i], x[i], 1, ncclInt, ncclSum, a.comm(r), a.stream(r));
        });
        std::vector<ncclComm_t> left(2);
        int lost = 2;
        ok(ncclGroupStart());
        for (int r = 0; r < 2; ++r)
            ok(ncclCommShrink(a.comm(r), &lost, 1, &left[std::size_t(r)], nullptr,
                              NCCL_SHRINK_ABORT));
        ok(ncclGroupEnd());
        ok(ncclCommAbort(a.comm(2)));
        a.wait();
        const auto y = a.each([](int r) { return Ints{r + 1}; });
        for (int r = 0; r < 2; ++r) {
            const auto i = std::size_t(r);
            ok(ncclAllReduce(y[i], y[i], 1, ncclInt, ncclSum, left[i], a.stream(r)));
        }
        a.wait();
        EXPECT_EQ(a.read(y[0], 1), Ints{3});
        for (const ncclComm_t c : left) ok(ncclCommDestroy(c));
        for (int r = 0; r < 2; ++r) ok(ncclCommAbort(a.comm(r)));
        a.release();
        expect_clean();
    });
}

// ---- Failures --------------------------------------------------------------------------------

/// All waits end when the ranks abort, whether the lost rank died in a kernel or between two.
TEST_F(NcclCommunicators, ALostRankIsWaitedForUntilAnAbort) {
    for (const int k : {0, 1, 2})
        for (const PeersSee peers : {PeersSee::nothing, PeersSee::remote_error})
            in_every_order([&] {
                Ranks a(2);
                const auto x = a.each([](int) { return Ints{1}; });
                const auto y = a.each([](int) { return Ints{1}; });
                lose_rank(a.comm(1), k, peers);
                for (int r = 0; r < 2; ++r) {
                    const auto i = std::size_t(r);
                    for (int* const p : {x[i], y[i]})
                        (void)ncclAllReduce(p, p, 1, ncclInt, ncclSum, a.comm(r), a.stream(r));
                }
                for (int i = 0; i < 20; ++i)
                    EXPECT_EQ(cudaStreamQuery(a.stream(0)), cudaErrorNotReady);
                EXPECT_EQ(poll(a.comm(0)),
                          peers == PeersSee::nothing ? ncclSuccess : ncclRemoteError);
                EXPECT_EQ(poll(a.comm(1)), ncclSystemError);
                for (int r = 0; r < 2; ++r) ok(ncclCommAbort(a.comm(r)));
                a.wait();
                EXPECT_EQ(a.read(x[0], 1), Ints{k == 2 ? 2 : -1}) << "the first may be whole";
                EXPECT_EQ(a.read(y[0], 1), Ints{-1}) << "what was aborted leaves anything";
                a.release();
                expect_clean();
            });
}
TEST_F(NcclCommunicators, AnAsynchronousErrorStays) {
    in_every_order([] {
        Ranks a(2);
        const auto x = a.each([](int) { return Ints{1}; });
        fail_communicator(a.comm(0), ncclRemoteError);
        for (int r = 0; r < 2; ++r) {
            const auto i = std::size_t(r);
            ok(ncclAllReduce(x[i], x[i], 1, ncclInt, ncclSum, a.comm(r), a.stream(r)));
        }
        EXPECT_EQ(cudaStreamQuery(a.stream(0)), cudaErrorNotReady);
        for (int i = 0; i < 2; ++i) EXPECT_EQ(poll(a.comm(0)), ncclRemoteError);
        EXPECT_EQ(poll(a.comm(1)), ncclSuccess);
        for (int r = 0; r < 2; ++r) ok(ncclCommAbort(a.comm(r)));
        a.wait();
        a.release();
        expect_clean();
    });
}
/// A group of which a call is refused queues nothing, and goes well when it is given again.
TEST_F(NcclCommunicators, RefuseACall) {
    in_every_order([] {
        Ranks a(2);
        const auto x = a.each([](int) { return Ints{1}; });
        const auto sum = [&](int r) {
            const auto i = std::size_t(r);
            return ncclAllReduce(x[i], x[i], 1, ncclInt, ncclSum, a.comm(r), a.stream(r));
        };
        refuse_work(a.comm(1), ncclInvalidArgument);
        ok(ncclGroupStart());
        ok(sum(0));
        EXPECT_EQ(sum(1), ncclInvalidArgument);
        EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
        expect_has(ncclGetLastError(nullptr), ncclGetErrorString(ncclInvalidArgument));
        refuse_work(a.comm(0));
        EXPECT_EQ(sum(0), ncclInvalidUsage);
        a.wait();
        EXPECT_EQ(gx::nccl_testing::counters().collectives, 0);
        a.group(sum);
        a.wait();
        EXPECT_EQ(a.read(x[0], 1), Ints{2});
        a.destroy();
    });
}
/// One thread waits in the init, another one ends it.
TEST_F(NcclCommunicators, AnAbortEndsABlockingInit) {
    hang_init(1);
    ncclComm_t comms[2] = {nullptr, nullptr};
    const ncclUniqueId id = new_id();
    ncclResult_t result = ncclSuccess;
    ncclConfig_t config = non_blocking();
    ok(cudaSetDevice(1));
    EXPECT_EQ(ncclCommInitRankConfig(&comms[1], 2, id, 1, &config), ncclInProgress);
    std::atomic<ncclComm_t> begun{nullptr};
    std::thread other([&] {
        ok(ncclGroupStart());
        ok(ncclCommInitRank(&comms[0], 2, id, 0));
        begun = comms[0];
        result = ncclGroupEnd();
    });
    while (begun == nullptr) (void)poll(comms[1]);
    ok(ncclCommAbort(begun));
    other.join();
    EXPECT_NE(result, ncclSuccess);
    ok(ncclCommAbort(comms[1]));
    expect_clean();
}

// ---- Ends ------------------------------------------------------------------------------------

TEST_F(NcclCommunicators, ADestroyWaitsForItsWorkAndTellsTheHostNothing) {
    start({.progress = StreamProgress::late});
    Ranks a(2);
    const auto x = a.each([](int) { return Ints{1}; });
    a.group([&](int r) {
        const auto i = std::size_t(r);
        return ncclAllReduce(x[i], x[i], 1, ncclInt, ncclSum, a.comm(r), a.stream(r));
    });
    for (int r = 0; r < 2; ++r) ok(ncclCommDestroy(a.comm(r)));
    EXPECT_EQ(gx::nccl_testing::counters().kernels, 2);
    expect_has(sentence_of([&] { a.release(); }), "race: ");
}
TEST_F(NcclCommunicators, MemoryOfTheirOwn) {
    void* p = nullptr;
    ok(cudaSetDevice(0));
    ok(ncclMemAlloc(&p, 400));
    Ranks a(1);
    void* handle = nullptr;
    ok(ncclCommRegister(a.comm(0), p, 400, &handle));
    ok(ncclCommDeregister(a.comm(0), handle));
    ok(ncclMemFree(p));
    a.destroy();
}
TEST_F(NcclCommunicators, NameErrors) {
    EXPECT_STREQ(ncclGetErrorString(ncclSuccess), "no error");
    EXPECT_STREQ(ncclGetErrorString(ncclInProgress), "NCCL operation in progress");
    EXPECT_STREQ(ncclGetErrorString(ncclNumResults), "unknown result code");
}

}  // namespace
