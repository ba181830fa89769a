// NCCL's double where each rank is a process: messages, collectives, divisions, deaths, misuse.
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include <sys/wait.h>  // waitpid
#include <unistd.h>    // fork

#include <gtest/gtest.h>

#include <testing/processes_run.hpp>  // WithProcesses, Shared

#include "nccl_double.hpp"

namespace {

using namespace double_test;
using gx::cuda_testing::StreamProgress;

/// What the ranks of a test share.
struct Board {
    ncclUniqueId id;
    std::atomic<int> has_id, arrived;
    char said[4][400];
    float sums[4][8];
};

class Processes : public testing_support::WithProcesses {
protected:
    /// Runs body(rank) in a process a rank; returns what killed them, or their exit status. Its
    /// sentence, if it throws, is said[rank].
    std::vector<int> run(int ranks, const std::function<void(int)>& body,
                         StreamProgress progress = StreamProgress::random) {
        std::fflush(stdout);
        std::vector<pid_t> children;
        for (int r = 0; r < ranks; ++r) {
            children.push_back(::fork());
            if (children.back() != 0) continue;
            gx::cuda_testing::reset({.seed = std::uint64_t(r) + 1,
                                     .progress = progress,
                                     .patience = std::chrono::milliseconds(2000),
                                     .check_at_exit = false});
            set_options({.processes = true});
            int status = 0;
            try {
                if (r == 0) {
                    ok(ncclGetUniqueId(&board->id));
                    board->has_id = 1;
                }
                while (board->has_id == 0) std::this_thread::yield();
                body(r);
                gx::cuda_testing::expect_clean();
            } catch (const std::exception& e) {
                const std::string misuse = gx::cuda_testing::first_misuse();
                std::snprintf(board->said[r], sizeof board->said[r], "%s",
                              misuse.empty() ? e.what() : misuse.c_str());
                status = 1;
            }
            ::_exit(::testing::Test::HasFailure() ? 2 : status);
        }
        std::vector<int> ends;
        for (const pid_t child : children) {
            int status = 0;
            ::waitpid(child, &status, 0);
            ends.push_back(WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        }
        return ends;
    }
    ncclComm_t join(int rank, int ranks, int device = -1) const {
        ok(cudaSetDevice(device < 0 ? rank : device));
        ncclComm_t comm = nullptr;
        ok(ncclCommInitRank(&comm, ranks, board->id, rank));
        return comm;
    }
    /// All ranks come here before one goes on.
    void meet(int ranks) const {
        const int round = board->arrived++ / ranks + 1;
        while (board->arrived < round * ranks) std::this_thread::yield();
    }

    testing_support::Shared<Board> board;
};

/// Memory of the current device, and a stream.
struct Work {
    explicit Work(std::vector<float> values)
        : stream(new_stream()), memory(device_memory<float>(values.size())), count(values.size()) {
        ok(cudaMemcpy(memory, values.data(), bytes(), cudaMemcpyHostToDevice));
        ok(cudaStreamSynchronize(nullptr));
    }
    std::vector<float> read() const {
        std::vector<float> v(count);
        ok(cudaStreamSynchronize(stream));
        ok(cudaMemcpy(v.data(), memory, bytes(), cudaMemcpyDeviceToHost));
        return v;
    }
    void release() const {
        ok(cudaFree(memory));
        ok(cudaStreamDestroy(stream));
    }
    [[nodiscard]] std::size_t bytes() const { return count * sizeof(float); }
    cudaStream_t stream;
    float* memory;
    std::size_t count;
};

const std::vector<int> all_well{0, 0, 0};

TEST_F(Processes, SendAndReceiveInEveryOrder) {
    for (const auto progress :
         {StreamProgress::late, StreamProgress::eager, StreamProgress::random}) {
        board->has_id = 0;
        EXPECT_EQ(run(
                      3,
                      [&](int r) {
                          const ncclComm_t comm = join(r, 3);
                          const int next = (r + 1) % 3, last = (r + 2) % 3;
                          const std::size_t n = 100'000;  // more than a datagram
                          const Work out(std::vector<float>(n, float(r))),
                              in(std::vector<float>(n, 0.0f));
                          for (int step = 0; step < 3; ++step) {
                              ok(ncclGroupStart());
                              ok(ncclSend(out.memory, n, ncclFloat32, next, comm, in.stream));
                              ok(ncclRecv(in.memory, n, ncclFloat32, last, comm, in.stream));
                              ok(ncclGroupEnd());
                          }
                          EXPECT_EQ(in.read(), std::vector<float>(n, float(last)));
                          ok(ncclCommDestroy(comm));
                          in.release();
                          out.release();
                      },
                      progress),
                  all_well)
            << board->said[0] << board->said[1] << board->said[2];
    }
}
TEST_F(Processes, CollectivesEndWithEqualBits) {
    EXPECT_EQ(
        run(3,
            [&](int r) {
                const ncclComm_t comm = join(r, 3);
                std::vector<float> values;
                for (int i = 0; i < 8; ++i)
                    values.push_back(1.0f / float(1 + i + r * 100) + float(r) * 1e5f);
                const Work w(values);
                ok(ncclAllReduce(w.memory, w.memory, 8, ncclFloat32, ncclSum, comm, w.stream));
                std::ranges::copy(w.read(), board->sums[r]);
                ok(ncclBroadcast(w.memory, w.memory, 4, ncclFloat32, 2, comm, w.stream));
                (void)w.read();
                ok(ncclCommDestroy(comm));
                w.release();
            }),
        all_well)
        << board->said[0] << board->said[1] << board->said[2];
    for (int i = 0; i < 8; ++i) {
        EXPECT_EQ(board->sums[0][i], board->sums[1][i]);
        EXPECT_EQ(board->sums[0][i], board->sums[2][i]);
        EXPECT_NEAR(board->sums[0][i], 3e5f, 4);
    }
}
TEST_F(Processes, SplitAndShrink) {
    EXPECT_EQ(
        run(3,
            [&](int r) {
                const ncclComm_t comm = join(r, 3);
                ncclComm_t part = nullptr, rest = nullptr;
                ok(ncclCommSplit(comm, r == 1 ? NCCL_SPLIT_NOCOLOR : 4, -r, &part, nullptr));
                const Work w({float(r + 1)});
                if (r != 1) {
                    int rank = -1;
                    ok(ncclCommUserRank(part, &rank));
                    EXPECT_EQ(rank, r == 2 ? 0 : 1);
                    ok(ncclAllReduce(w.memory, w.memory, 1, ncclFloat32, ncclSum, part, w.stream));
                    EXPECT_EQ(w.read(), std::vector<float>{4});
                    ok(ncclCommDestroy(part));
                }
                int excluded = 0;
                if (r != 0) {
                    ok(ncclCommShrink(comm, &excluded, 1, &rest, nullptr, NCCL_SHRINK_DEFAULT));
                    ok(ncclAllReduce(w.memory, w.memory, 1, ncclFloat32, ncclSum, rest, w.stream));
                    EXPECT_EQ(w.read(), std::vector<float>{6});
                    ok(ncclCommDestroy(rest));
                }
                meet(3);
                ok(ncclCommDestroy(comm));
                w.release();
            }),
        all_well)
        << board->said[0] << board->said[1] << board->said[2];
}

// ---- Deaths and aborts -------------------------------------------------------------------------

TEST_F(Processes, ADeadProcessIsARemoteError) {
    EXPECT_EQ(run(2,
                  [&](int r) {
                      const ncclComm_t comm = join(r, 2);
                      if (r == 1) ::raise(SIGKILL);
                      const Work w({1});
                      ok(ncclRecv(w.memory, 1, ncclFloat32, 1, comm, w.stream));
                      ncclResult_t state = ncclSuccess;
                      while (state == ncclSuccess) ok(ncclCommGetAsyncError(comm, &state));
                      EXPECT_EQ(state, ncclRemoteError);
                      ok(ncclCommAbort(comm));
                      ok(cudaStreamSynchronize(w.stream));
                      w.release();
                  }),
              (std::vector<int>{0, SIGKILL}))
        << board->said[0];
}
/// Its first kernel is done on both sides, of its second nothing has come.
TEST_F(Processes, AProcessThatIsKilledInAKernelSendsNothingOfIt) {
    EXPECT_EQ(run(2,
                  [&](int r) {
                      const ncclComm_t comm = join(r, 2);
                      if (r == 1) gx::nccl_testing::kill_process(2);
                      const Work w({r == 1 ? 5.0f : 0.0f});
                      for (int i = 0; i < 2; ++i) {
                          if (r == 1) ok(ncclSend(w.memory, 1, ncclFloat32, 0, comm, w.stream));
                          else ok(ncclRecv(w.memory, 1, ncclFloat32, 1, comm, w.stream));
                          EXPECT_TRUE(i == 1 || w.read() == std::vector<float>{5});
                      }
                      if (r == 1) (void)cudaStreamSynchronize(w.stream);
                      ncclResult_t state = ncclSuccess;
                      while (state == ncclSuccess) ok(ncclCommGetAsyncError(comm, &state));
                      EXPECT_EQ(state, ncclRemoteError);
                      ok(ncclCommAbort(comm));
                      ok(cudaStreamSynchronize(w.stream));
                      w.release();
                  }),
              (std::vector<int>{0, SIGKILL}))
        << board->said[0];
}
TEST_F(Processes, ACommunicatorThatWasEndedIsNoDeath) {
    for (int times = 0; times < 100; ++times) {  // the end and the exit come between two looks
        board->has_id = board->arrived = 0;
        ASSERT_EQ(run(2,
                      [&](int r) {
                          const ncclComm_t comm = join(r, 2);
                          meet(2);
                          if (r == 1) {
                              ok(ncclCommDestroy(comm));
                              return;
                          }
                          ncclResult_t state = ncclSuccess;
                          for (int i = 0; i < 1000 && state == ncclSuccess; ++i)
                              ok(ncclCommGetAsyncError(comm, &state));
                          EXPECT_EQ(state, ncclSuccess);
                          ok(ncclCommDestroy(comm));
                      }),
                  (std::vector<int>{0, 0}))
            << board->said[0] << board->said[1];
    }
}
TEST_F(Processes, AnAbortEndsWhatWaits) {
    EXPECT_EQ(run(2,
                  [&](int r) {
                      const ncclComm_t comm = join(r, 2);
                      const Work w({1});
                      if (r == 0) ok(ncclRecv(w.memory, 1, ncclFloat32, 1, comm, w.stream));
                      ok(ncclCommAbort(comm));
                      ok(cudaStreamSynchronize(w.stream));
                      w.release();
                  }),
              (std::vector<int>{0, 0}));
}

// ---- Misuse ------------------------------------------------------------------------------------

TEST_F(Processes, CountsThatDifferAreNamedByBoth) {
    (void)run(2, [&](int r) {
        const ncclComm_t comm = join(r, 2);
        const Work w(std::vector<float>(8));
        if (r == 0) ok(ncclSend(w.memory, 4, ncclFloat32, 1, comm, w.stream));
        else ok(ncclRecv(w.memory, 8, ncclFloat32, 0, comm, w.stream));
        (void)w.read();
    });
    for (const int r : {0, 1}) expect_has(board->said[r], "sends 4 x ncclFloat32 to rank 1");
}
TEST_F(Processes, CollectivesThatDifferAreNamedByBoth) {
    (void)run(2, [&](int r) {
        const ncclComm_t comm = join(r, 2);
        const Work w(std::vector<float>(8));
        ok(ncclAllReduce(w.memory, w.memory, 8, ncclFloat32, r == 0 ? ncclSum : ncclMax, comm,
                         w.stream));
        (void)w.read();
    });
    for (const int r : {0, 1}) expect_has(board->said[r], "collective 1 of communicator 1 is");
}
TEST_F(Processes, AMessageThatNobodySendsIsADeadlock) {
    (void)run(2, [&](int r) {
        const ncclComm_t comm = join(r, 2);
        const Work w({1});
        if (r == 0) ok(ncclRecv(w.memory, 1, ncclFloat32, 1, comm, w.stream));
        meet(2);
        if (r == 0) (void)w.read();
        ok(ncclCommDestroy(comm));
        w.release();
    });
    expect_has(board->said[0], "waits for a send by rank 1");
    EXPECT_STREQ(board->said[1], "");
}
TEST_F(Processes, RanksOfOneNumberOneGpuOrAnotherCountAreRefused) {
    (void)run(2, [&](int r) {
        ncclComm_t comm = join(0, 2, r);
        ok(ncclCommAbort(comm));
    });
    expect_has(std::string(board->said[0]) + board->said[1], "two ranks 0 join");
    board->has_id = 0;
    (void)run(2, [&](int r) { (void)join(r, 2, 3); });
    for (const int r : {0, 1}) expect_has(board->said[r], "invalid usage");
    board->has_id = 0;
    (void)run(2, [&](int r) { (void)join(r, 2 + r); });
    expect_has(std::string(board->said[0]) + board->said[1], "Give all the same count.");
}

}  // namespace
