// The Trainer over NCCL's double where a rank, its GPU or NCCL fails: who is named, and where.
#include <gx/nccl/world.hpp>

#include <atomic>
#include <functional>
#include <initializer_list>
#include <map>
#include <mutex>
#include <regex>

#include <gtest/gtest.h>

#include <gx/cuda_testing/host_computed.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/trainer/trainer.hpp>
#include <trainer/small.hpp>

#include "nccl_world.hpp"

namespace {

using namespace testing_support;
using namespace gx;
using cuda_testing::HostComputed;
using cuda_testing::StreamProgress;
using nccl_tests::every_progress;

using Action = std::function<void(int rank, int step, ncclComm_t)>;
Action before_forward;                    ///< called on each rank in each step
std::mutex mutex;                         ///< of what follows
std::map<int, ncclComm_t> communicators;  ///< of the ranks
std::map<int, std::string> errors;        ///< what each rank has thrown

/// Rank 1 fails in such a step: with graphs, the first is captured or replayed for the first time,
/// and the second is replayed.
constexpr int failing_steps[] = {4, 8};
int failing_step = 4;
std::atomic<bool> hangs = false, gave_up = false;  ///< rank 1 in that step; a rank has thrown

struct Failing : HostComputed<reference::Device> {
    Failing(cuda::DeviceContext& gpu, const Graph& graph, const DeviceOptions& o)
        : HostComputed(gpu, graph, o), rank(o.rank) {}
    void load(const Batch& batch) {
        if (hangs && rank == 1 && step == failing_step)
            cuda_testing::enqueue_when(
                queue().stream(), "hang", [] { return gave_up.load(); }, [] {});
        HostComputed::load(batch);
    }
    void forward(Mode mode, View<ForwardReport> report) {
        if (mode == Mode::train) {
            ncclComm_t mine = nullptr;
            {
                const std::lock_guard lock(mutex);
                mine = communicators[rank];
            }
            before_forward(rank, step++, mine);
        }
        HostComputed::forward(mode, report);
    }
    int rank, step = 0;
};

/// Keeps each rank's own error.
struct Watched : nccl::World<Failing> {
    using World::World;
    void run(FunctionRef<void(Rank&)> f) {
        World::run([&](Rank& rank) {
            {
                const std::lock_guard lock(mutex);
                communicators[rank.rank()] = rank.transport().communicator();
            }
            try {
                f(rank);
            } catch (const Error& e) {
                const std::lock_guard lock(mutex);
                errors[rank.rank()] = e.what();
                gave_up = true;
                throw;
            }
        });
    }
};

constexpr auto long_time = std::chrono::seconds(60);
constexpr auto short_time = std::chrono::seconds(1);

/// What a run of three ranks throws.
template <class T>
std::string error_of_run(StreamProgress progress, Action at,
                         std::chrono::nanoseconds deadline = long_time) {
    before_forward = std::move(at);
    errors.clear();
    gave_up = false;
    cuda_testing::reset({.progress = progress, .check_at_exit = false});
    Watched gpus({.placement = {3, 1}, .deadline = deadline});
    const T trainer({.batch = 4, .epochs = 3, .seed = 3});
    const std::string error = error_of([&] { (void)trainer.train(gpus, images(160)); });
    EXPECT_EQ(cuda_testing::first_misuse(), "");
    return error;
}

[[nodiscard]] std::vector<std::pair<StreamProgress, int>> all_orders_and_steps() {
    std::vector<std::pair<StreamProgress, int>> all;
    for (const StreamProgress progress : every_progress)
        for (const int step : failing_steps) all.emplace_back(progress, step);
    return all;
}

using Plain = Trainer<Net, Bucketed<Ring<fp32>, 64>, Constant>;
using Late = Trainer<Net, DoubleBuffered<Bucketed<MultiRing<2, fp16>, 64>>, Constant>;
template <class T>
class EarlyEnds : public ::testing::Test {};
using EarlyTrainers = ::testing::Types<Plain, Late>;
TYPED_TEST_SUITE(EarlyEnds, EarlyTrainers);

/// The sentence of a rank of threads. Rank 1 fails in a step where its messages of the step before,
/// or with a staleness of 1 of the two before, may be under way. Of the one before that it has all,
/// and another rank may not yet have its last bucket.
template <class T>
void expect_named(const std::map<int, std::string>& said, std::initializer_list<int> ranks) {
    const int oldest = failing_step - 1 - std::same_as<T, Late>;
    std::string where = "step " + std::to_string(oldest - 1) +
                        (std::same_as<T, Late> ? ", bucket 3" : ", bucket 6");
    for (int step = oldest; step <= failing_step; ++step)
        where += "|step " + std::to_string(step) + ", bucket [0-6]";
    for (const int r : ranks) {
        const std::regex sentence("rank " + std::to_string(r) + ", (" + where +
                                  ") of [47], operation all-reduce: rank 1 "
                                  "(stopped first|timed out)\\..*");
        ASSERT_TRUE(said.contains(r));
        EXPECT_TRUE(std::regex_match(said.at(r), sentence)) << said.at(r);
    }
}

/// What NCCL says of it on rank 1, which is its own error.
void expect_own_error(ncclResult_t state) {
    EXPECT_TRUE(holds(errors[1], std::string("NCCL on rank 1: ") + ncclGetErrorString(state)));
}

TYPED_TEST(EarlyEnds, ARankThatThrowsStopsTheOthersInItsStep) {
    for (const auto& [progress, at] : all_orders_and_steps()) {
        failing_step = at;
        const std::string error =
            error_of_run<TypeParam>(progress, [](int rank, int step, ncclComm_t) {
                if (rank == 1 && step == failing_step) throw Error("the disk of rank 1 is full");
            });
        EXPECT_EQ(error, "the disk of rank 1 is full");
        expect_named<TypeParam>(errors, {0, 2});
    }
}
/// What threads say of the same run.
struct FailingOnThreads : reference::Device {
    FailingOnThreads(const Graph& graph, const DeviceOptions& o)
        : reference::Device(graph, o), rank(o.rank) {}
    ForwardReport forward(const Batch& batch, Mode mode) {
        if (mode == Mode::train && step++ == failing_step && rank == 1)
            throw Error("the disk is full");
        return reference::Device::forward(batch, mode);
    }
    int rank, step = 0;
};
struct WatchedThreads : ThreadWorld<FailingOnThreads> {
    using ThreadWorld::ThreadWorld;
    void run(FunctionRef<void(Rank&)> f) {
        ThreadWorld::run([&](Rank& rank) {
            try {
                f(rank);
            } catch (const Error& e) {
                const std::lock_guard lock(mutex);
                errors[rank.rank()] = e.what();
                throw;
            }
        });
    }
};
TYPED_TEST(EarlyEnds, ThreadsSayTheSame) {
    errors.clear();
    WatchedThreads threads({.placement = {3, 1}});
    const TypeParam trainer({.batch = 4, .epochs = 3, .seed = 3});
    EXPECT_EQ(error_of([&] { (void)trainer.train(threads, images(160)); }), "the disk is full");
    expect_named<TypeParam>(errors, {0, 2});
}

/// The GPU of a rank dies in a kernel of NCCL. Where NCCL says so to the others, and where not.
TYPED_TEST(EarlyEnds, ARankThatDiesInACollectiveIsNamed) {
    for (const auto& [progress, at] : all_orders_and_steps())
        for (const auto peers :
             {nccl_testing::PeersSee::remote_error, nccl_testing::PeersSee::nothing}) {
            failing_step = at;
            (void)error_of_run<TypeParam>(progress, [&](int rank, int step, ncclComm_t comm) {
                if (rank == 1 && step == failing_step) nccl_testing::lose_rank(comm, 9, peers);
            });
            expect_named<TypeParam>(errors, {0, 2});
            expect_own_error(ncclSystemError);
        }
}
/// NCCL says on one rank that another failed, and all others are well.
TYPED_TEST(EarlyEnds, ARankThatAloneSeesARemoteErrorIsNamed) {
    for (const auto& [progress, at] : all_orders_and_steps()) {
        failing_step = at;
        (void)error_of_run<TypeParam>(progress, [](int rank, int step, ncclComm_t comm) {
            if (rank == 1 && step == failing_step)
                nccl_testing::fail_communicator(comm, ncclRemoteError);
        });
        expect_named<TypeParam>(errors, {0, 2});
        expect_own_error(ncclRemoteError);
    }
}
TYPED_TEST(EarlyEnds, ARankWithAnErrorOfItsSystemIsNamed) {
    for (const auto& [progress, at] : all_orders_and_steps()) {
        failing_step = at;
        (void)error_of_run<TypeParam>(progress, [](int rank, int step, ncclComm_t comm) {
            if (rank == 1 && step == failing_step)
                nccl_testing::fail_communicator(comm, ncclSystemError);
        });
        expect_named<TypeParam>(errors, {0, 2});
        expect_own_error(ncclSystemError);
    }
}
TYPED_TEST(EarlyEnds, ALostGpuIsNamed) {
    for (const auto& [progress, at] : all_orders_and_steps()) {
        failing_step = at;
        const std::string error =
            error_of_run<TypeParam>(progress, [](int rank, int step, ncclComm_t) {
                if (rank == 1 && step == failing_step)
                    cuda_testing::lose_device(1, cudaErrorECCUncorrectable);
            });
        EXPECT_TRUE(holds(error, "GPU 1", "queue 'compute'", "cudaErrorECCUncorrectable")) << error;
        expect_named<TypeParam>(errors, {0, 2});
    }
}
/// In whichever of its next operations the fault is.
TYPED_TEST(EarlyEnds, AGpuThatFaultsInAnOperationIsNamed) {
    for (const auto& [progress, at] : all_orders_and_steps())
        for (const int behind : {1, 2, 3, 5, 8}) {
            failing_step = at;
            const std::string error =
                error_of_run<TypeParam>(progress, [&](int rank, int step, ncclComm_t) {
                    if (rank != 1 || step != failing_step) return;
                    cuda_testing::fail_operation(behind, cudaErrorECCUncorrectable);
                });
            EXPECT_TRUE(holds(error, "GPU ", "cudaErrorECCUncorrectable")) << error;
        }
}
/// All ranks have queued all, and the GPU of rank 1 is at a kernel until another has given it up.
TYPED_TEST(EarlyEnds, ARankWhoseGpuHangsIsNamed) {
    for (const auto& [progress, at] : all_orders_and_steps()) {
        failing_step = at;
        hangs = true;
        (void)error_of_run<TypeParam>(progress, [](int, int, ncclComm_t) {}, short_time);
        hangs = false;
        expect_named<TypeParam>(errors, {0, 1, 2});
    }
}

}  // namespace
