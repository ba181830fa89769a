// Transports without a world, on a clock that the tests set: which rank is named, and when.
#include <gx/nccl/transport.hpp>

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <gx/core/error.hpp>
#include <gx/memory/buffer.hpp>
#include <gx/nccl/world.hpp>

#include <support/files.hpp>  // error_of, holds

#include "nccl_world.hpp"

namespace {

using namespace gx;
using namespace std::chrono_literals;
using cuda_testing::enqueue_when;
using cuda_testing::expect_clean;
using cuda_testing::StreamProgress;
using nccl_tests::start;
using testing_support::error_of;
using testing_support::holds;
using Message = QueuedMessage<cuda::GpuMemory>;
using Moment = std::chrono::steady_clock::time_point;

// ---- Ranks and their clock ---------------------------------------------------------------------

constexpr std::chrono::nanoseconds deadline = 60s;
std::atomic<std::chrono::nanoseconds> time_set{};
std::atomic<int> looks = 0;  ///< at the clock

Moment set_now() {
    ++looks;
    return Moment(time_set.load());
}

/// What a rank has without a world.
struct Rank {
    Rank(nccl::RankBoard& board, const ncclUniqueId& id, int rank, int ranks)
        : gpu(rank),
          values(&gpu.memory(), 4, "values"),
          bytes(&gpu.memory(), 16, "bytes"),
          queue(gpu, "communication"),
          link(queue, board, id, rank,
               {.placement = {ranks, 1}, .deadline = deadline, .now = set_now}) {}
    void send(nccl::Transport& over, int peer) {
        const Message m[]{{.peer = peer, .out = bytes.view<cuda::GpuMemory>()}};
        over.exchange(m);
    }
    void receive(nccl::Transport& over, int peer) {
        const Message m[]{{.peer = peer, .in = bytes.view<cuda::GpuMemory>()}};
        over.exchange(m);
    }
    [[nodiscard]] Delivery wait() { return queue.wait(queue.record()); }

    cuda::DeviceContext gpu;
    Buffer<float> values;
    Buffer<std::byte> bytes;
    cuda::Queue queue;
    nccl::Transport link;
};

/// The ranks of a test, in a thread each.
class Ranks {
public:
    explicit Ranks(int ranks)
        : board(ranks, [](int) {}),
          errors(static_cast<std::size_t>(ranks)),
          over_(errors.size()),
          ranks_(ranks) {
        time_set = 0ns;
        start(StreamProgress::late, 1);
        id = nccl::unique_id();
    }
    [[nodiscard]] Rank join(int rank) { return {board, id, rank, ranks_}; }
    /// Calls f(r) in a thread for each rank r, and waits for them.
    void run(const std::function<void(int)>& f) {
        std::vector<std::jthread> threads;
        for (int r = 0; r < ranks_; ++r)
            threads.emplace_back([&, r] {
                try {
                    f(r);
                } catch (const std::exception& e) {
                    errors[static_cast<std::size_t>(r)] = e.what();
                }
                over_[static_cast<std::size_t>(r)] = true;
            });
    }
    [[nodiscard]] bool is_over(int rank) const { return over_[static_cast<std::size_t>(rank)]; }
    /// Waits until `is_so`, or the rank's function has ended.
    template <class F>
    void wait_until(int rank, F is_so) const {
        while (!is_over(rank) && !is_so()) std::this_thread::yield();
    }
    void wait_for_end(int rank) const {
        wait_until(rank, [] { return false; });
    }
    /// Waits until `rank`, which alone waits by the clock, has looked at it some times.
    void wait_for_looks(int rank) const {
        const int before = looks;
        wait_until(rank, [=] { return looks >= before + 10; });
    }

    nccl::RankBoard board;
    ncclUniqueId id{};
    std::vector<std::string> errors;  ///< [rank]: the sentence that it threw; "": none

private:
    std::vector<std::atomic<bool>> over_;
    int ranks_;
};

// ---- Deadlines, to the tick --------------------------------------------------------------------

/// Rank 1 comes when the deadline of rank 0 is met, or has passed.
TEST(NcclTransport, WaitsForTheDeadlineUntilAllHaveJoined) {
    for (const auto late : {0ns, 1ns}) {
        Ranks ranks(2);
        std::atomic<int> joined = 0;
        ranks.run([&](int r) {
            if (r == 1) {
                ranks.wait_for_looks(0);
                time_set = deadline + late;
                ranks.wait_for_looks(0);
            }
            const Rank rank = ranks.join(r);
            ++joined;
            ranks.wait_until(1 - r, [&] { return joined == 2; });
        });
        EXPECT_TRUE(late == 0ns ? ranks.errors[0].empty()
                                : holds(ranks.errors[0], "joining the other ranks", "rank 1"))
            << ranks.errors[0];
        EXPECT_EQ(joined == 2, late == 0ns);
        expect_clean();
    }
}
/// Rank 1 sends when the deadline of rank 0 is met, or has passed.
TEST(NcclTransport, WaitsForTheDeadlineUntilMessagesGetOn) {
    for (const auto late : {0ns, 1ns}) {
        Ranks ranks(2);
        std::atomic<bool> queued = false;
        Delivery seen{};
        ranks.run([&](int r) {
            Rank rank = ranks.join(r);
            if (r == 0) {
                rank.receive(rank.link, 1);
                queued = true;
                seen = rank.wait();
                return;
            }
            ranks.wait_until(0, [&] { return queued.load(); });
            ranks.wait_for_looks(0);
            time_set = deadline + late;
            ranks.wait_for_looks(0);
            if (late == 0ns) rank.send(rank.link, 0);
            ranks.wait_for_end(0);
        });
        EXPECT_EQ(seen.complete(), late == 0ns);
        EXPECT_EQ(seen.peer, late == 0ns ? -1 : 1);
        EXPECT_EQ(ranks.errors, std::vector<std::string>(2));
        expect_clean();
    }
}
/// NCCL says on one rank that another one has failed, and the other one does not answer.
TEST(NcclTransport, WaitsForTheDeadlineUntilOthersAnswer) {
    for (const int silent : {0, 1}) {
        Ranks ranks(2);
        const int asks = 1 - silent;
        std::atomic<bool> joined = false, queued = false, was_early = true;
        Delivery seen{};
        ranks.run([&](int r) {
            Rank rank = ranks.join(r);
            if (r == asks) {
                rank.receive(rank.link, silent);
                // A rank that is still joining would answer the question that follows.
                ranks.wait_until(silent, [&] { return joined.load(); });
                nccl_testing::fail_communicator(rank.link.communicator(), ncclRemoteError);
                queued = true;
                seen = rank.wait();
                return;
            }
            joined = true;
            ranks.wait_until(asks, [&] { return queued.load(); });
            ranks.wait_for_looks(asks);
            time_set = deadline;
            ranks.wait_for_looks(asks);
            was_early = ranks.is_over(asks);
            time_set = deadline + 1ns;
            ranks.wait_for_end(asks);
        });
        EXPECT_EQ(ranks.errors, std::vector<std::string>(2));
        EXPECT_FALSE(was_early) << "rank " << silent;
        EXPECT_EQ(seen.outcome, Delivery::Outcome::timed_out);
        EXPECT_EQ(seen.peer, silent);
        expect_clean();
    }
}

// ---- Parts -------------------------------------------------------------------------------------

/// Boards of two ranks that are processes. Rows of rank 1 come to rank 0 long after NCCL has
/// divided their communicator: when rank 0 has asked its link 50 times who is lost. At the 25th
/// time `then` is the present.
struct LateRows {
    class Link final : public nccl::BoardLink {
    public:
        Link(LateRows& all, int rank) : all_(all), rank_(rank) {}
        int agree(int lost) override {
            const std::lock_guard lock(all_.mutex);
            return all_.named = all_.named < 0 ? lost : all_.named;
        }
        int lost() override {
            if (rank_ == 0 && all_.divided && ++asked_ == 25) time_set = all_.then;
            if (asked_ == 50) all_.let_come();
            const std::lock_guard lock(all_.mutex);
            return all_.named;
        }
        bool threw() override { return false; }
        void tell(const std::string& row) override {
            if (rank_ == 1 && all_.held(row)) return;
            all_.boards[static_cast<std::size_t>(1 - rank_)].heard(rank_, row);
        }
        void working_on(const Operation&) override {}

    private:
        LateRows& all_;
        int rank_, asked_ = 0;
    };

    explicit LateRows(std::chrono::nanoseconds time_then) : then(time_then) {
        for (int r = 0; r < 2; ++r) boards.emplace_back(2, r, links.emplace_back(*this, r), 1ms);
    }
    bool held(const std::string& row) {
        const std::lock_guard lock(mutex);
        if (!comes) rows.push_back(row);
        return !comes;
    }
    void let_come() {
        {
            const std::lock_guard lock(mutex);
            comes = true;
        }
        for (const std::string& row : rows) boards[0].heard(1, row);
    }

    std::chrono::nanoseconds then;
    std::mutex mutex{};
    int named = -1;
    bool comes = false;
    std::vector<std::string> rows{};
    std::atomic<bool> divided = false;
    std::deque<Link> links{};
    std::deque<nccl::RankBoard> boards{};
};

/// It is known late who is in which part: before the deadline, when it is met, or not at all.
TEST(NcclTransport, ASplitWaitsForTheRowsOfTheOtherRanks) {
    for (const auto then : {0ns, deadline, deadline + 1ns}) {
        Ranks ranks(2);
        LateRows late(then);
        ranks.run([&](int r) {
            Rank rank(late.boards[static_cast<std::size_t>(r)], ranks.id, r, 2);
            nccl::Transport& part = rank.link.split(1, r);
            if (r == 1) late.divided = true;
            if (r == 0) rank.receive(part, 1);
            else if (then <= deadline) rank.send(part, 0);
            else return ranks.wait_for_end(0);
            rank.link.close();
        });
        EXPECT_EQ(ranks.errors[1], "");
        EXPECT_TRUE(then <= deadline
                        ? ranks.errors[0].empty()
                        : holds(ranks.errors[0], "splitting a communicator", "rank 1 timed out"))
            << ranks.errors[0];
        expect_clean();
    }
}

/// Rank 2 of three waits for its part, which the others have. `meanwhile` is done on rank 0.
std::string beside_a_part_that_hangs(const std::function<void(Ranks&)>& meanwhile) {
    Ranks ranks(3);
    nccl_testing::hang_part(2);
    std::atomic<int> divided = 0;
    ranks.run([&](int r) {
        Rank rank = ranks.join(r);
        EXPECT_EQ(rank.link.split(0, r).ranks(), 3);
        ++divided;
        if (r == 0) {
            ranks.wait_until(2, [&] { return divided == 2; });
            ranks.wait_for_looks(2);  // it has begun to wait
            meanwhile(ranks);
            time_set = deadline + 1ns;
        }
        if (r != 2) ranks.wait_for_end(2);
    });
    expect_clean();
    return ranks.errors[2];
}
TEST(NcclTransport, ARankWhosePartHangsGoesOnWhereOneLeavesThatOwesItNothing) {
    bool was_early = true;
    const std::string error = beside_a_part_that_hangs([&](Ranks& ranks) {
        ranks.board.receives(0, 1, 0);
        ranks.board.leave(0);
        ranks.wait_for_looks(2);
        was_early = ranks.is_over(2);
    });
    EXPECT_FALSE(was_early);
    EXPECT_TRUE(holds(error, "splitting a communicator"));
}
TEST(NcclTransport, ARankWhosePartHangsNamesOneThatOwesOthers) {
    const std::string error =
        beside_a_part_that_hangs([](Ranks& ranks) { ranks.board.receives(0, 0, 1); });
    EXPECT_TRUE(holds(error, "rank 2, ", "splitting a communicator: rank 1 timed out"));
}

// ---- The rank that is named --------------------------------------------------------------------

/// Its GPU hangs within its messages, and no rank owes it anything.
TEST(NcclTransport, ARankThatWaitsForNobodyNamesItself) {
    Ranks ranks(1);
    Delivery seen{};
    ranks.run([&](int r) {
        Rank rank = ranks.join(r);
        rank.link.working_on({"all-reduce", 0, 0});
        const auto hangs = [&] {
            time_set = time_set.load() + 1s;
            return !rank.link.lost().complete();
        };
        enqueue_when(rank.queue.stream(), "work that hangs", hangs, [] {});
        (void)rank.link.all_reduce<fp32>(rank.values.view<cuda::GpuMemory>());
        seen = rank.wait();
    });
    EXPECT_EQ(seen.outcome, Delivery::Outcome::timed_out);
    EXPECT_EQ(seen.peer, 0);
    expect_clean();
}
/// Rank 1 waits for rank 0, and for nobody in its part with rank 2.
TEST(NcclTransport, ARankThatOwesMessagesIsNamedBeforeTheRanksOfParts) {
    Ranks ranks(3);
    std::atomic<bool> queued = false;
    Delivery seen{};
    ranks.run([&](int r) {
        Rank rank = ranks.join(r);
        (void)rank.link.split(r == 0 ? 0 : 1, r);
        if (r == 1) {
            rank.receive(rank.link, 0);
            queued = true;
            seen = rank.wait();
            return;
        }
        ranks.wait_until(1, [&] { return queued.load(); });
        if (r == 0) {
            ranks.wait_for_looks(1);
            time_set = deadline + 1ns;
        }
        ranks.wait_for_end(1);
    });
    EXPECT_EQ(seen.peer, 0);
    expect_clean();
}
/// Work keeps the GPU of rank 1 from its messages, as the others see once it polls.
TEST(NcclTransport, ARankReportsThatItsOwnGpuComputes) {
    Ranks ranks(3);
    std::atomic<int> joined = 0;
    std::atomic<bool> works = true, queued = false;
    ranks.run([&](int r) {
        Rank rank = ranks.join(r);
        ++joined;
        ranks.wait_until(r, [&] { return joined == 3; });
        if (r == 1) {
            enqueue_when(rank.queue.stream(), "work", [&] { return !works; }, [] {});
            rank.link.working_on({"all-reduce", 0, 0});
            queued = true;
            EXPECT_TRUE(rank.wait().complete());
            return;
        }
        if (r == 0) {
            ranks.wait_until(1, [&] { return queued.load(); });
            const std::int64_t before = nccl_testing::counters().polls;
            ranks.wait_until(1, [=] { return nccl_testing::counters().polls > before + 3; });
            EXPECT_EQ(ranks.board.suspect(0, 0), 1);
            works = false;
        }
        ranks.wait_for_end(1);
    });
    EXPECT_EQ(ranks.errors, std::vector<std::string>(3));
    expect_clean();
}

// ---- Ends --------------------------------------------------------------------------------------

/// Without the rank that it is told, or itself where none is known; and what is queued is done.
TEST(NcclTransport, GivesUpWithoutARankAndWaitsForItsQueue) {
    for (const int lost : {-1, 0}) {
        Ranks ranks(2);
        std::atomic<int> joined = 0;
        bool ran = false;
        Delivery seen{};
        ranks.run([&](int r) {
            Rank rank = ranks.join(r);
            ++joined;
            if (r == 0) return ranks.wait_for_end(1);
            ranks.wait_until(0, [&] { return joined == 2; });
            rank.receive(rank.link, 0);
            enqueue_when(rank.queue.stream(), "work", [] { return true; }, [&] { ran = true; });
            rank.link.give_up(lost);
            EXPECT_TRUE(ran) << "before it returns";
            seen = rank.link.lost();
        });
        EXPECT_EQ(seen.outcome, Delivery::Outcome::timed_out);
        EXPECT_EQ(seen.peer, lost < 0 ? 1 : lost);
        expect_clean();
    }
}
TEST(NcclTransport, AClosedOneHasWaitedForItsQueue) {
    Ranks ranks(1);
    bool ran = false;
    ranks.run([&](int r) {
        Rank rank = ranks.join(r);
        enqueue_when(rank.queue.stream(), "work", [] { return true; }, [&] { ran = true; });
        rank.link.close();
        EXPECT_TRUE(ran);
    });
    EXPECT_EQ(ranks.errors[0], "");
    expect_clean();
}

// ---- Calls that NCCL refuses -------------------------------------------------------------------

TEST(NcclTransport, ACallThatNcclRefusesNamesTheRank) {
    Ranks ranks(2);
    ranks.run([&](int r) {
        Rank rank = ranks.join(r);
        if (r == 0) return ranks.wait_for_end(1);
        nccl_testing::refuse_work(rank.link.communicator(), ncclInvalidUsage);
        rank.send(rank.link, 0);
    });
    EXPECT_TRUE(holds(ranks.errors[1], "a group of ncclSend and ncclRecv by rank 1: invalid usage",
                      "Run it with NCCL_DEBUG=INFO"));
    expect_clean();
}
TEST(NcclCommunicator, OneThatNcclRefusesNamesTheRank) {
    start(StreamProgress::late, 1);
    const ncclUniqueId id = nccl::unique_id();
    nccl_testing::refuse_init(1, ncclSystemError);
    EXPECT_TRUE(holds(error_of([&] { nccl::Communicator comm(id, 1, 2); }),
                      "ncclCommInitRankConfig of rank 1: unhandled system error"));
    expect_clean();
}

}  // namespace
