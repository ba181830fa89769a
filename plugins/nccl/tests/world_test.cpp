// Ranks over NCCL's double: the bits of threads, in every order of queued work; what goes wrong.
#include <gx/nccl/world.hpp>

#include <array>
#include <atomic>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <gx/core/error.hpp>
#include <gx/halving_doubling/reducer.hpp>
#include <gx/hierarchical/reducer.hpp>
#include <gx/parameter_server/reducer.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/shared_memory/reducer.hpp>
#include <gx/testing/rows.hpp>
#include <gx/trees/double_tree.hpp>

#include <support/files.hpp>  // error_of, holds

#include "nccl_world.hpp"

namespace {

using namespace gx;
using namespace gx::testing;
using cuda_testing::expect_clean;
using cuda_testing::StreamProgress;
using nccl_tests::every_progress;
using nccl_tests::reduce_jobs_on_nccl;
using nccl_tests::reduce_on_nccl;
using nccl_tests::start;
using testing_support::error_of;
using testing_support::holds;
using View = ViewIn<float, cuda::GpuMemory>;

constexpr Placement placements[]{{1, 1}, {1, 2}, {3, 1}, {2, 2}, {5, 1}, {3, 2}, {7, 1}, {2, 4}};

// ---- What the types promise --------------------------------------------------------------------

static_assert(gx::World<nccl::World<>> && StreamOrdered<nccl::Transport>);
static_assert(HasMemory<nccl::World<>::Rank>);

// ---- Reducers of gx ----------------------------------------------------------------------------

template <class R>
class OverNccl : public ::testing::Test {};
using Reducers =
    ::testing::Types<Ring<fp32>, Ring<fp16>, MultiRing<2, bf16>, MultiRing<4, fp16>,
                     Bucketed<Ring<fp16>, 64>, DoubleTree<3, fp16>, HalvingDoubling<fp32>,
                     Hierarchical<fp16>, ParameterServer<fp16>, SharedMemory<bf16>>;
TYPED_TEST_SUITE(OverNccl, Reducers);

TYPED_TEST(OverNccl, BitsAreThoseOfThreads) {
    std::uint64_t seed = 1;
    for (const Placement p : placements) {
        const std::vector<Rows> jobs{wide_magnitudes(seed, p.ranks(), 97),
                                     wide_magnitudes(seed, p.ranks(), 3),
                                     small_integers(seed, p.ranks(), 0)};
        const auto expected = reduce_jobs<TypeParam>(OnThreads{}, p, jobs).rows;
        start(every_progress[seed % 3], seed);
        ++seed;
        const Outcome got = reduce_jobs_on_nccl<TypeParam>(jobs, p);
        for (std::size_t j = 0; j < jobs.size(); ++j)
            EXPECT_EQ(got.rows[j], expected[j]) << p.machines << " x " << p.ranks_per_machine;
        expect_clean();
    }
}

TYPED_TEST(OverNccl, ALostRankIsNamedByAllOthers) {
    for (const Placement p : {Placement{1, 2}, {3, 1}, {2, 2}}) {
        const int lost = p.ranks() - 1;
        start(StreamProgress::random, 3);
        std::vector<Delivery> seen(static_cast<std::size_t>(p.ranks()));
        const Outcome got =
            reduce_jobs_on_nccl<TypeParam>({small_integers(1, p.ranks(), 50)}, p, lost, &seen);
        int found = 0;
        for (int r = 0; r < lost; ++r) {
            const Delivery d = seen[static_cast<std::size_t>(r)];
            EXPECT_FALSE(d.complete()) << "rank " << r;
            EXPECT_EQ(d.peer, lost);
            found += d.outcome == Delivery::Outcome::timed_out;
        }
        EXPECT_EQ(found, 1) << "one rank finds it, the others stop with it";
        expect_clean();
    }
}

/// K flows in lockstep are one group a step: 2 (n - 1) kernels, K messages in each.
TEST(NcclWorld, SendsTheMessagesOfTheFormula) {
    for (const Placement p : placements) {
        start(StreamProgress::eager, 1);
        const int n = p.ranks();
        const Rows rows = small_integers(1, n, 16 * n);
        const auto mark = nccl_testing::counters();
        const Outcome got = reduce_jobs_on_nccl<MultiRing<4, fp16>>({rows}, p);
        const auto sent = nccl_testing::counters() - mark;
        const std::int64_t steps = 2 * (n - 1);
        EXPECT_EQ(sent.kernels, n * steps);
        EXPECT_EQ(sent.sends, n * steps * 4);
        EXPECT_EQ(sent.sent_bytes, steps * 16 * n * 2);
        EXPECT_EQ(sent.collectives, 0);
        for (const ReduceReport& r : got.reports[0]) {
            EXPECT_EQ(r.steps, steps);
            EXPECT_EQ(r.bytes_sent * n, sent.sent_bytes);
        }
    }
}

/// The double reports every race and deadlock of the queued work: many orders of one program.
TEST(NcclWorld, IsRightInEveryOrder) {
    const Placement p{2, 2};
    const Rows rows = wide_magnitudes(5, 4, 61);
    const Rows expected = reduce_jobs<MultiRing<2, fp16>>(OnThreads{}, p, {rows}).rows[0];
    for (const StreamProgress progress : every_progress)
        for (std::uint64_t seed = 1; seed <= 8; ++seed) {
            start(progress, seed);
            EXPECT_EQ((reduce_on_nccl<MultiRing<2, fp16>>(rows, p)), expected);
            expect_clean();
        }
}

// ---- Sub-groups --------------------------------------------------------------------------------

TEST(NcclWorld, SplitsIntoGroupsThatReduceByThemselves) {
    for (const StreamProgress progress : every_progress) {
        start(progress, 2);
        nccl::World<> world({.placement = {4, 1}});
        std::vector<float> sums(4);
        world.run([&](auto& rank) {
            const int r = rank.rank();
            nccl::Transport& half = rank.transport().split(r % 2, -r);  // 2, 0 and 3, 1
            EXPECT_EQ(half.ranks(), 2);
            EXPECT_EQ(half.rank(), 1 - r / 2);
            Buffer<float> b(&rank.memory(), 1, "value");
            std::vector<float> here{float(r)};
            Ring<fp32> ring;
            ReducePlan plan = ReducePlan::whole(half.placement(), 1);
            plan.memory = &rank.memory();
            ring.reserve(plan);
            const View v = b.template view<cuda::GpuMemory>();
            rank.stream().copy_in(std::span<const float>(here), v, {"in"});
            EXPECT_TRUE(ring.all_reduce(half, BucketIn<cuda::GpuMemory>(v)).complete());
            rank.stream().copy_out(ViewIn<const float, cuda::GpuMemory>(v), std::span(here),
                                   {"out"});
            EXPECT_TRUE(rank.stream().wait(rank.stream().record()).complete());
            sums[static_cast<std::size_t>(r)] = here[0];
        });
        EXPECT_EQ(sums, (std::vector<float>{1, 2, 1, 2}));
        expect_clean();
    }
}
TEST(NcclWorld, ASplitComesBehindTheMessagesBefore) {
    for (const StreamProgress progress : every_progress) {
        start(progress, 3);
        nccl::World<> world({.placement = {2, 1}});
        world.run([&](auto& rank) {
            Buffer<std::byte> b(&rank.memory(), 8, "bytes");
            const auto v = b.template view<cuda::GpuMemory>();
            const int other = 1 - rank.rank();
            const QueuedMessage<cuda::GpuMemory> message[]{
                rank.rank() == 0 ? QueuedMessage<cuda::GpuMemory>{.peer = other, .out = v}
                                 : QueuedMessage<cuda::GpuMemory>{.peer = other, .in = v}};
            rank.transport().exchange(message);
            EXPECT_EQ(rank.transport().split(0, rank.rank()).ranks(), 2);
        });
        expect_clean();
    }
}
TEST(NcclWorld, ARankThatDoesNotSplitIsNamed) {
    start(StreamProgress::late, 1);
    nccl::World<> world({.placement = {3, 1}});
    std::vector<int> reported_by(3, -1);
    const std::string s = error_of([&] {
        world.run([&](auto& rank) {
            try {
                if (rank.rank() != 1) (void)rank.transport().split(0, 0);
            } catch (const LostRank& e) {
                reported_by[static_cast<std::size_t>(rank.rank())] = e.where().rank;
                throw;
            }
        });
    });
    EXPECT_TRUE(holds(s, "rank 1")) << s;
    EXPECT_TRUE(holds(s, "splitting a communicator")) << s;
    EXPECT_EQ(reported_by, (std::vector<int>{0, -1, 2}));
    expect_clean();
}

// ---- Failures ----------------------------------------------------------------------------------

/// A program that reduces 20 times; what each rank's last wait returned.
std::vector<Delivery> deliveries(int ranks, std::chrono::nanoseconds deadline,
                                 const std::function<void(nccl::Transport&, int call)>& at) {
    std::vector<Delivery> seen(static_cast<std::size_t>(ranks));
    nccl::World<> world({.placement = {ranks, 1}, .deadline = deadline});
    world.run([&](auto& rank) {
        Buffer<float> b(&rank.memory(), 64, "gradient");
        Ring<fp32> ring;
        ReducePlan plan = ReducePlan::whole(rank.transport().placement(), 64);
        plan.memory = &rank.memory();
        ring.reserve(plan);
        for (int call = 0; call < 20; ++call) {
            at(rank.transport(), call);
            (void)ring.all_reduce(rank.transport(),
                                  BucketIn<cuda::GpuMemory>(b.template view<cuda::GpuMemory>()));
            auto& d = seen[static_cast<std::size_t>(rank.rank())];
            d = rank.stream().wait(rank.stream().record());
            if (!d.complete()) throw LostRank({.rank = rank.rank()}, d);
        }
    });
    return seen;
}

TEST(NcclWorld, ARankThatThrowsStopsTheOthers) {
    for (const StreamProgress progress : every_progress) {
        start(progress, 4);
        const std::string s = error_of([&] {
            (void)deliveries(3, std::chrono::seconds(60), [](nccl::Transport& link, int call) {
                if (link.rank() == 1 && call == 3) throw Error("the disk of rank 1 is full");
            });
        });
        EXPECT_EQ(s, "the disk of rank 1 is full");
        expect_clean();
    }
}
// Its queue's destructor waits while the rank unwinds, for a message that nobody sends.
TEST(NcclWorld, ARankThatThrowsWithAQueueBehindItsMessagesEnds) {
    for (const StreamProgress progress : every_progress) {
        start(progress, 4);
        const std::string s = error_of([] {
            nccl::World<> world({.placement = {2, 1}, .deadline = std::chrono::milliseconds(50)});
            world.run([](auto& rank) {
                if (rank.rank() == 1) {  // stays until the world stops
                    std::byte never{};
                    (void)rank.control().wait(
                        rank.control().receive(0, control_channel, {&never, 1}));
                    return;
                }
                Buffer<std::byte> memory(&rank.memory(), 8, "memory");
                cuda::Queue compute(rank.gpu(), "compute");
                const QueuedMessage<cuda::GpuMemory> never{
                    .peer = 1, .in = memory.template view<cuda::GpuMemory>()};
                rank.transport().exchange({&never, 1});
                compute.wait_for(rank.stream().record());
                throw Error("the disk of rank 0 is full");
            });
        });
        EXPECT_NE(s, "") << "its own error, or that of the wait that the deadline ended";
    }
}
/// A rank whose GPU dies in a kernel, where NCCL tells the others, and where it does not.
TEST(NcclWorld, ADeadGpuEndsTheRun) {
    for (const auto peers :
         {nccl_testing::PeersSee::remote_error, nccl_testing::PeersSee::nothing}) {
        start(StreamProgress::random, 1);
        const std::string s = error_of([&] {
            (void)deliveries(3, std::chrono::seconds(60), [&](nccl::Transport& link, int call) {
                if (link.rank() == 2 && call == 5)
                    nccl_testing::lose_rank(link.communicator(), 1, peers);
            });
        });
        EXPECT_TRUE(holds(s, "NCCL on rank 2: unhandled system error")) << s;
        expect_clean();
    }
}
/// A group of messages is the first call behind the fault: CUDA says which one it was.
TEST(NcclWorld, AGpuThatNcclFindsLostIsNamedWithItsFault) {
    start(StreamProgress::eager, 1);
    nccl::World<> world({.placement = {2, 1}});
    const std::string s = error_of([&] {
        world.run([](auto& rank) {
            Buffer<std::byte> memory(&rank.memory(), 8, "memory");
            const QueuedMessage<cuda::GpuMemory> message{
                .peer = 1, .in = memory.template view<cuda::GpuMemory>()};
            if (rank.rank() == 0) {
                cuda_testing::lose_device(0, cudaErrorECCUncorrectable);
                rank.transport().exchange({&message, 1});
            } else {  // stays until the world stops
                std::byte never{};
                (void)rank.control().wait(rank.control().receive(0, control_channel, {&never, 1}));
            }
        });
    });
    EXPECT_TRUE(holds(s, "GPU 0: NCCL on rank 0: unhandled cuda error", "cudaErrorECCUncorrectable",
                      "resume from the last checkpoint"))
        << s;
}
TEST(NcclWorld, AnAsynchronousErrorEndsTheRun) {
    start(StreamProgress::eager, 1);
    EXPECT_THROW((void)deliveries(2, std::chrono::seconds(60),
                                  [&](nccl::Transport& link, int call) {
                                      if (link.rank() == 0 && call == 2)
                                          nccl_testing::fail_communicator(link.communicator(),
                                                                          ncclRemoteError);
                                  }),
                 DeviceLost);
    expect_clean();
}
/// Rank `hangs` of two does nothing until the other has given up, which waits for a message of it.
/// before(rank) and after(rank) are called on the other before and after the message is queued.
/// Returns what its wait returned, and the error of the run.
template <class Before, class After>
std::pair<Delivery, std::string> beside_one_that_hangs(int hangs, Before before, After after) {
    start(StreamProgress::late, 1);
    std::atomic<bool> over = false;
    nccl::World<> world({.placement = {2, 1}, .deadline = std::chrono::milliseconds(50)});
    Delivery seen{};
    const std::string error = error_of([&] {
        world.run([&](auto& rank) {
            if (rank.rank() == hangs) {
                while (!over) std::this_thread::yield();
                return;
            }
            Buffer<std::byte> b(&rank.memory(), 8, "bytes");
            before(rank);
            const QueuedMessage<cuda::GpuMemory> in[]{
                {.peer = hangs, .in = b.template view<cuda::GpuMemory>()}};
            rank.transport().exchange(in);
            after(rank);
            seen = rank.stream().wait(rank.stream().record());
            over = true;
            throw LostRank({.rank = rank.rank(), .operation = "waiting"}, seen);
        });
    });
    return {seen, error};
}
/// It goes on elsewhere.
TEST(NcclWorld, ARankThatHangsIsNamedAtTheDeadline) {
    for (const int hangs : {0, 1}) {
        const auto [seen, error] = beside_one_that_hangs(hangs, [](auto&) {}, [](auto&) {});
        EXPECT_EQ(seen.outcome, Delivery::Outcome::timed_out);
        EXPECT_EQ(seen.peer, hangs);
        EXPECT_TRUE(holds(error, ": rank " + std::to_string(hangs) + " ")) << error;
        expect_clean();
    }
}
/// NCCL reports a remote error, and the GPU of the rank that waits has not come to its messages.
TEST(NcclWorld, ARankThatDoesNotAnswerIsNamed) {
    for (const int silent : {0, 1}) {
        const auto [seen, error] = beside_one_that_hangs(
            silent,
            [](auto& rank) {
                nccl::Transport& link = rank.transport();
                working_on(link, {"all-reduce", 0, 0});
                cuda_testing::enqueue_when(
                    rank.stream().stream(), "work", [&] { return !link.lost().complete(); }, [] {});
            },
            [](auto& rank) {
                nccl_testing::fail_communicator(rank.transport().communicator(), ncclRemoteError);
            });
        EXPECT_EQ(seen.peer, silent) << error;
        expect_clean();
    }
}
/// In a group, a rank that does not do its part is named by its number in the world.
TEST(NcclWorld, ARankThatLeavesAGroupIsNamedByItsNumberInTheWorld) {
    for (const StreamProgress progress : every_progress) {
        start(progress, 1);
        std::vector<Delivery> seen(4);
        nccl::World<> world({.placement = {4, 1}});
        const std::string s = error_of([&] {
            world.run([&](auto& rank) {
                nccl::Transport& half = rank.transport().split(rank.rank() % 2, -rank.rank());
                if (rank.rank() == 3) return;  // rank 0 of the group that rank 1 is in
                Buffer<std::byte> b(&rank.memory(), 8, "bytes");
                const QueuedMessage<cuda::GpuMemory> in[]{
                    {.peer = 1 - half.rank(), .in = b.template view<cuda::GpuMemory>()}};
                if (rank.rank() == 1) half.exchange(in);
                auto& d = seen[static_cast<std::size_t>(rank.rank())];
                d = rank.stream().wait(rank.stream().record());
                if (!d.complete()) throw LostRank({.rank = rank.rank()}, d);
            });
        });
        EXPECT_EQ(seen[1].peer, 3) << s;
        expect_clean();
    }
}
TEST(NcclWorld, ARankThatLeavesAGroupAndOwesNothingIsNotLost) {
    for (const StreamProgress progress : every_progress) {
        start(progress, 1);
        nccl::World<> world({.placement = {3, 1}});
        world.run([&](auto& rank) {
            nccl::Transport& all = rank.transport().split(0, rank.rank());
            EXPECT_TRUE(rank.stream().wait(rank.stream().record()).complete());
            if (rank.rank() == 2) return;
            Buffer<std::byte> b(&rank.memory(), 8, "bytes");
            const auto v = b.template view<cuda::GpuMemory>();
            for (int i = 0; i < 20; ++i) {
                const QueuedMessage<cuda::GpuMemory> message[]{
                    i % 2 == rank.rank()
                        ? QueuedMessage<cuda::GpuMemory>{.peer = 1 - rank.rank(), .out = v}
                        : QueuedMessage<cuda::GpuMemory>{.peer = 1 - rank.rank(), .in = v}};
                all.exchange(message);
                EXPECT_TRUE(rank.stream().wait(rank.stream().record()).complete());
            }
        });
        expect_clean();
    }
}
TEST(NcclWorld, ALossIsKnownToAllParts) {
    // Rank 2 is lost; the others have parts beside each other, and a part of a part.
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        start(StreamProgress::late, seed);
        nccl::World<> world({.placement = {3, 1}});
        std::array<std::string, 2> others;
        EXPECT_THROW(world.run([&](auto& rank) {
            const int r = rank.rank();
            nccl::Transport& first = rank.transport().split(r == 2, r);
            nccl::Transport& second = rank.transport().split(r == 2, r);
            nccl::Transport& inner = first.split(0, r);
            if (r == 2)
                throw LostRank({.rank = 2, .operation = "a test"}, {Delivery::Outcome::lost, 2});
            std::byte never{};
            (void)rank.control().wait(rank.control().receive(2, control_channel, {&never, 1}));
            Buffer<std::byte> bytes(&rank.memory(), 8, "bytes");
            QueuedMessage<cuda::GpuMemory> message{.peer = 1 - r};
            (r == 0 ? message.in : message.out) = bytes.template view<cuda::GpuMemory>();
            try {
                for (nccl::Transport* const part : {&first, &second, &inner})
                    part->exchange({&message, 1});
                const Delivery done = rank.stream().wait(rank.stream().record());
                if (!done.complete()) throw LostRank({.rank = r, .operation = "a wait"}, done);
            } catch (const LostRank&) {
                throw;
            } catch (const std::exception& e) {
                others[std::size_t(r)] = e.what();
                throw;
            }
        }),
                     LostRank);
        EXPECT_EQ(others, (std::array<std::string, 2>{}));
    }
}
/// Before NCCL has let all ranks of a group join, and where one of them is late.
TEST(RankBoard, KnowsTheRanksOfAGroupBeforeTheyJoin) {
    nccl::RankBoard board(4, [](int) {});
    for (int r = 0; r < 4; ++r) board.joins(0, r);
    for (int r = 0; r < 4; ++r) board.divides(0, 1, r, r % 2, -r);
    const int odd = board.part(0, 1, 1), even = board.part(0, 1, 0);
    EXPECT_EQ(board.part(0, 1, 1), odd);
    EXPECT_NE(even, odd);
    board.joins(odd, 1);  // rank 1 of the world
    EXPECT_EQ(board.suspect(odd, 1), 3) << "rank 0 of the group has not joined";
    EXPECT_EQ(board.missing(odd, 1), -1) << "it has not left";
    board.leave(3);
    EXPECT_EQ(board.missing(odd, 1), 3);
}
TEST(RankBoard, NamesWhoComputesWhereNobodyOwesAnything) {
    nccl::RankBoard board(3, [](int) {});
    for (int r = 0; r < 3; ++r) board.joins(0, r);
    EXPECT_EQ(board.suspect(0, 0), -1);
    board.computes(2, true);
    EXPECT_EQ(board.suspect(0, 0), 2);
    board.takes_part(0, 0);
    EXPECT_EQ(board.suspect(0, 0), 1) << "a debt comes first";
    nccl::RankBoard other(3, [](int) {});
    for (int r = 0; r < 3; ++r) other.joins(0, r);
    other.computes(2, true);
    other.takes_part(0, 1);
    EXPECT_EQ(other.suspect(0, 1), 0) << "also where rank 0 owes it";
}
/// The rank that asks is owed nothing, no rank computes, and rank 2 waits for a message.
TEST(RankBoard, NamesWhoOwesOthers) {
    for (const int owes : {0, 1}) {
        nccl::RankBoard board(3, [](int) {});
        for (int r = 0; r < 3; ++r) board.joins(0, r);
        board.receives(0, 2, owes);
        EXPECT_EQ(board.suspect(0, 1 - owes), owes);
    }
}
TEST(RankBoard, AsksWhoIsWell) {
    nccl::RankBoard board(3, [](int) {});
    board.answer(1);
    EXPECT_EQ(board.silent(0), 1) << "an answer to no question";
    board.ask();
    board.answer(1);
    EXPECT_EQ(board.silent(0), 2);
    board.leave(2);
    EXPECT_EQ(board.silent(0), -1);
}

/// A queue that takes longer than the deadline in all, and always gets on.
TEST(NcclWorld, ALongQueueThatGetsOnIsNoLoss) {
    for (const bool behind_work : {false, true}) {
        start(StreamProgress::late, 1);
        nccl::World<> world({.placement = {2, 1}, .deadline = std::chrono::seconds(2)});
        const auto begin = std::chrono::steady_clock::now();
        int pieces = 0;  // of 600 ms
        world.run([&](auto& rank) {
            Buffer<float> b(&rank.memory(), 16, "gradient");
            Ring<fp32> ring;
            ReducePlan plan = ReducePlan::whole(rank.transport().placement(), 16);
            plan.memory = &rank.memory();
            ring.reserve(plan);
            const auto passed = [=](int piece) {
                return std::chrono::steady_clock::now() - begin >
                       piece * std::chrono::milliseconds(600);
            };
            for (int i = 0; i < 4; ++i) {
                if (rank.rank() == 0) ++pieces;
                const int until = behind_work ? 4 : i + 1;
                if (behind_work || rank.rank() == 1)
                    cuda_testing::enqueue_when(
                        rank.stream().stream(), "work", [=] { return passed(until); }, [] {});
                working_on(rank.transport(), {"all-reduce", i, 0});
                (void)ring.all_reduce(rank.transport(), BucketIn<cuda::GpuMemory>(
                                                            b.template view<cuda::GpuMemory>()));
            }
            EXPECT_TRUE(rank.stream().wait(rank.stream().record()).complete());
        });
        EXPECT_EQ(pieces, 4);
        expect_clean();
    }
}
TEST(NcclWorld, AnInitThatFailsOrHangsEndsTheRun) {
    for (const bool hangs : {true, false}) {
        start(StreamProgress::late, 1);
        nccl::World<> world({.placement = {3, 1}, .deadline = std::chrono::milliseconds(50)});
        if (hangs) nccl_testing::hang_init(2);
        else nccl_testing::fail_init(2);
        const auto run = [&] { world.run([](auto&) {}); };
        if (hangs) EXPECT_THROW(run(), LostRank);
        else EXPECT_THROW(run(), DeviceLost);
        expect_clean();
    }
}
TEST(NcclWorld, AnInitThatIsRefusedNamesTheRank) {
    start(StreamProgress::late, 1);
    nccl::World<> world({.placement = {1, 1}});
    nccl_testing::fail_init(1, ncclInvalidUsage);
    const std::string s = error_of([&] { world.run([](auto&) {}); });
    EXPECT_TRUE(holds(s, "NCCL on rank 0: ")) << s;
    expect_clean();
}
TEST(NcclWorld, GpusThatDoNotReachEachOtherEndTheRun) {
    start(StreamProgress::late, 1);
    nccl_testing::set_unreachable(0, 2);
    nccl::World<> world({.placement = {3, 1}});
    EXPECT_THROW(world.run([](auto&) {}), Error);
    expect_clean();
}
TEST(NcclWorld, MessagesOfUnequalLengthsAreNamed) {
    start(StreamProgress::late, 1);
    nccl::World<> world({.placement = {2, 1}});
    const std::string s = error_of([&] {
        world.run([&](auto& rank) {
            Buffer<std::byte> b(&rank.memory(), 8, "bytes");
            const auto v = b.template view<cuda::GpuMemory>();
            const QueuedMessage<cuda::GpuMemory> message[]{
                rank.rank() == 0 ? QueuedMessage<cuda::GpuMemory>{.peer = 1, .out = v.first(4)}
                                 : QueuedMessage<cuda::GpuMemory>{.peer = 0, .in = v}};
            rank.transport().exchange(message);
            (void)rank.stream().wait(rank.stream().record());
        });
    });
    EXPECT_TRUE(holds(cuda_testing::first_misuse(), "sends 4 x ncclUint8")) << s;
}
TEST(NcclWorld, APeerThatIsNoneIsRefusedAndLeavesNoGroupOpen) {
    for (const int peer : {-1, 1, 3}) {
        start(StreamProgress::late, 1);
        nccl::World<> world({.placement = {1, 1}});
        EXPECT_ANY_THROW(world.run([&](auto& rank) {
            Buffer<std::byte> b(&rank.memory(), 8, "bytes");
            const QueuedMessage<cuda::GpuMemory> out[]{
                {.peer = peer, .out = b.template view<cuda::GpuMemory>()}};
            rank.transport().exchange(out);
        }));
        EXPECT_TRUE(holds(cuda_testing::first_misuse(), "with peer " + std::to_string(peer)));
    }
}
/// Rank 1 of three sends to the rank before it where it sent to the next.
TEST(NcclWorld, MessagesToOtherPeersAreOtherWorkThanWasCaptured) {
    start(StreamProgress::random, 1);
    nccl::World<> world({.placement = {3, 1}});
    const std::string s = error_of([&] {
        world.run([&](auto& rank) {
            Buffer<std::byte> out(&rank.memory(), 8, "out"), in(&rank.memory(), 8, "in");
            cuda::Queue compute(rank.gpu(), "compute");
            const auto pass_on = [&](int way) {
                const QueuedMessage<cuda::GpuMemory> messages[]{
                    {.peer = (rank.rank() + 3 + way) % 3,
                     .out = out.template view<cuda::GpuMemory>()},
                    {.peer = (rank.rank() + 3 - way) % 3,
                     .in = in.template view<cuda::GpuMemory>()}};
                rank.transport().exchange(messages);
            };
            for (int step = 0; step < 3; ++step)
                rank.transport().repeat(compute, 0,
                                        [&] { pass_on(step == 2 && rank.rank() == 1 ? -1 : 1); });
            const Delivery d = rank.stream().wait(rank.stream().record());
            if (!d.complete()) throw LostRank({.rank = rank.rank()}, d);
        });
    });
    EXPECT_TRUE(holds(s, "'a group of ncclSend and ncclRecv', had other arguments")) << s;
}

TEST(NcclWorld, ShrinksToTheGpusOfItsSurvivors) {
    start(StreamProgress::late, 1);
    const nccl::World<> world({.placement = {2, 2}, .gpus = {4, 5, 6, 7}});
    const int lost[]{1};
    auto left = world.survivors(lost, {});
    EXPECT_EQ(left.members, (std::vector<int>{0, 2, 3}));
    std::vector<int> gpus(3);
    left.world->run(
        [&](auto& rank) { gpus[static_cast<std::size_t>(rank.rank())] = rank.gpu().device(); });
    EXPECT_EQ(gpus, (std::vector<int>{4, 6, 7}));
    const int all[]{0, 1, 2, 3};
    EXPECT_EQ(world.survivors(all, {}).world, nullptr);
    expect_clean();
}

// ---- Bad input ---------------------------------------------------------------------------------

std::string refused(nccl::WorldOptions options) {
    return error_of([&] { nccl::World<> world(std::move(options)); });
}
TEST(NcclWorld, RefusesWhatCannotRun) {
    start(StreamProgress::late, 1, 2);
    EXPECT_EQ(refused({.placement = {1, 4}}),
              "an nccl::World of 4 ranks needs as many GPUs, and this process sees 2. Run fewer "
              "ranks, or let CUDA_VISIBLE_DEVICES name more GPUs.");
    EXPECT_EQ(refused({.placement = {1, 2}, .gpus = {1, 1}}),
              "an nccl::World of 2 ranks: rank 1 has GPU 1, as rank 0 has. NCCL takes one rank on "
              "a GPU: name another.");
    EXPECT_TRUE(holds(refused({.placement = {1, 2}, .gpus = {0}}), "is given 1 GPUs"));
    EXPECT_TRUE(holds(refused({.placement = {1, 2}, .gpus = {0, 2}}), "sees GPUs 0 to 1"));
    EXPECT_TRUE(holds(refused({.placement = {1, 2}, .gpus = {0, -1}}), "has GPU -1"));
    EXPECT_NE(refused({.placement = {1, 1}, .deadline = std::chrono::seconds(0)}), "");
    EXPECT_TRUE(holds(refused({.placement = {-1, -1}}), "placement.machines is -1"));
    nccl_testing::set_options({.version = 30001});
    EXPECT_TRUE(holds(refused({.placement = {1, 1}}),
                      "NCCL 3.0.1 is loaded, and gx::nccl was compiled for 2."));
    nccl_testing::set_options({.version = 21805});
    EXPECT_TRUE(holds(refused({.placement = {1, 1}}), "NCCL 2.18.5 is loaded"));
    nccl_testing::set_options({.version = NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, 0)});
    EXPECT_EQ(refused({.placement = {1, 1}}), "no error") << "an older patch";
    start(StreamProgress::late, 1, 0);
    EXPECT_TRUE(holds(refused({.placement = {1, 1}}), "nvidia-smi") ||
                holds(refused({.placement = {1, 1}}), "CUDA_VISIBLE_DEVICES"));
    cuda_testing::reset({.driver_version = 11000});
    EXPECT_TRUE(holds(refused({.placement = {1, 1}}), "needs an NVIDIA driver"));
}
TEST(NcclWorld, TakesTheGpusThatItIsGiven) {
    start(StreamProgress::late, 1);
    nccl::World<> world({.placement = {1, 3}, .gpus = {5, 0, 2}});
    std::vector<int> gpus(3);
    world.run([&](auto& rank) {
        gpus[static_cast<std::size_t>(rank.rank())] = rank.gpu().device();
        EXPECT_GE(rank.now().count(), 0);
    });
    EXPECT_EQ(gpus, (std::vector<int>{5, 0, 2}));
    expect_clean();
}
TEST(NcclWorld, ItsHostsSendControlMessages) {
    start(StreamProgress::late, 1);
    nccl::World<> world({.placement = {1, 2}});
    world.run([&](auto& rank) {
        std::byte out{static_cast<unsigned char>(rank.rank())}, in{};
        const Request a = rank.control().send(1 - rank.rank(), control_channel, {&out, 1});
        const Request b = rank.control().receive(1 - rank.rank(), control_channel, {&in, 1});
        EXPECT_TRUE(rank.control().wait(a).complete());
        EXPECT_TRUE(rank.control().wait(b).complete());
        EXPECT_EQ(in, std::byte(1 - rank.rank()));
    });
    expect_clean();
}

}  // namespace
