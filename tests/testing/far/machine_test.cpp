// Faults of programs on far memory: each is found and named, whatever order queued work runs in.
#include <gx/testing/far/machine.hpp>

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <gx/memory/kernels.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/testing/far/world.hpp>

#include <support/files.hpp>  // error_of

namespace {

using namespace gx;
using namespace gx::testing;
using Rank = FarRank<NoDevice>;
using View = ViewIn<float, FarMemory>;
using Read = ViewIn<const float, FarMemory>;

struct Multiply {
    static constexpr std::string_view name = "multiply";
    void operator()(float by, std::span<float> v) const {
        for (float& x : v) x *= by;
    }
};

/// What a step of training has: two queues, a gradient, a reducer and an update.
struct Step {
    explicit Step(Rank& r)
        : rank(r),
          compute(r.machine(), r.rank(), "compute"),
          communication(r.stream()),
          gradient(&r.memory(), 8, "gradient"),
          parameters(&r.memory(), 8, "parameters"),
          state(&r.memory(), 8, "optimizer state") {
        ReducePlan plan = ReducePlan::whole(r.transport().placement(), 8);
        plan.memory = &r.memory();
        reducer.reserve(plan);
    }
    [[nodiscard]] static View of(Buffer<float>& b) { return b.view<FarMemory>(); }
    void backward() { launch(compute, kernels::Fill<float>{1}, of(gradient)); }
    void reduce() { (void)reducer.all_reduce(rank.transport(), BucketIn<FarMemory>(of(gradient))); }
    void update() {
        launch(compute, kernels::CopyValues<float>{}, Read(of(gradient)), of(parameters));
    }
    void send(Buffer<float>& b) {
        const QueuedMessage<FarMemory> m{.peer = 1 - rank.rank(), .out = bytes_of(of(b))};
        rank.transport().exchange({&m, 1});
    }
    void receive(Buffer<float>& b) {
        const QueuedMessage<FarMemory> m{.peer = 1 - rank.rank(), .in = writable_bytes_of(of(b))};
        rank.transport().exchange({&m, 1});
    }
    void finish() {
        (void)compute.wait(compute.record());
        (void)communication.wait(communication.record());
    }

    [[nodiscard]] std::span<float> host() { return here; }

    Rank& rank;
    FarQueue compute;
    FarQueue& communication;
    Buffer<float> gradient, parameters, state;
    Ring<fp32> reducer{};
    std::array<float, 8> here{};
};

/// Both ranks' hosts have come here.
void meet(Rank& r) {
    const std::byte here{};
    std::byte there{};
    (void)r.control().send(1 - r.rank(), 0, {&here, 1});
    (void)r.control().wait(r.control().receive(1 - r.rank(), 0, {&there, 1}));
}

struct Case {
    const char* name;
    std::function<void(Rank&)> program;
    std::vector<std::string> says;
};

std::string error_on(const Case& c, std::uint64_t seed, QueueProgress progress) {
    FarWorld<> world({{2, 1}, seed, progress});
    try {
        world.run([&](Rank& rank) { c.program(rank); });
    } catch (const std::exception& e) {
        return e.what();
    }
    return "no error";
}

const std::vector<Case> cases{
    {"gradient is reduced before it is final",
     [](Rank& r) {
         Step s(r);
         s.backward();  // communication does not wait for it
         s.reduce();
         s.compute.wait_for(s.communication.record());
         s.update();
         s.finish();
     },
     {"race on rank", "'gradient'", "nothing orders the two"}},
    {"update does not wait for the reduction",
     [](Rank& r) {
         Step s(r);
         s.backward();
         s.communication.wait_for(s.compute.record());
         s.reduce();
         s.update();
         s.finish();
     },
     {"race on rank", "'gradient'", "nothing orders the two"}},
    {"gradient is reused before the reduction has ended",
     [](Rank& r) {
         Step s(r);
         for (int step = 0; step < 2; ++step) {
             s.backward();
             s.communication.wait_for(s.compute.record());
             s.reduce();
         }
         s.finish();
     },
     {"race on rank", "'gradient'", "'fill'"}},
    {"host reads an outcome before its event",
     [](Rank& r) {
         Step s(r);
         r.machine().register_memory(r.rank(), std::as_bytes(s.host()), "outcome");
         s.compute.copy_out(Read(Step::of(s.parameters)), s.host(), {"tell"});
         s.compute.host_reads(std::span<const float>(s.here), {"hear"});
         s.finish();
     },
     {"race on rank", "'outcome'", "'hear'"}},
    {"host reads memory that a copy alone has named",
     [](Rank& r) {
         Step s(r);
         s.compute.copy_out(Read(Step::of(s.parameters)), s.host(), {"tell"});
         s.compute.host_reads(std::span<const float>(s.here), {"hear"});
         s.finish();
     },
     {"race on rank", "of 'tell'", "'hear'"}},
    {"host waits for the event before the copy",
     [](Rank& r) {
         Step s(r);
         r.machine().register_memory(r.rank(), std::as_bytes(s.host()), "outcome");
         s.update();
         const Event early = s.compute.record();
         s.compute.copy_out(Read(Step::of(s.parameters)), s.host(), {"tell"});
         (void)s.compute.wait(early);
         s.compute.host_reads(std::span<const float>(s.here), {"hear"});
         s.finish();
     },
     {"race on rank", "'outcome'", "'hear'"}},
    {"outcome is written twice before it is read",
     [](Rank& r) {
         Step s(r);
         FarQueue other(r.machine(), r.rank(), "second");
         r.machine().register_memory(r.rank(), std::as_bytes(s.host()), "outcome");
         s.compute.copy_out(Read(Step::of(s.parameters)), s.host(), {"tell"});
         other.copy_out(Read(Step::of(s.parameters)), s.host(), {"tell again"});
         s.finish();
         (void)other.wait(other.record());
     },
     {"race on rank", "'outcome'", "'tell"}},
    {"two queues copy to targets that overlap",
     [](Rank& r) {
         Step s(r);
         s.compute.copy_out(Read(Step::of(s.state)).first(6), s.host().first(6), {"tell"});
         s.communication.copy_out(Read(Step::of(s.parameters)).first(6), s.host().subspan(2),
                                  {"tell again"});
         s.finish();
     },
     {"race on rank", "'tell"}},
    {"host reads a target behind another one that overlaps it",
     [](Rank& r) {
         Step s(r);
         s.compute.copy_out(Read(Step::of(s.state)).first(4), s.host().first(4), {"tell"});
         s.communication.copy_out(Read(Step::of(s.parameters)).first(4), s.host().subspan(3, 4),
                                  {"tell again"});
         (void)s.communication.wait(s.communication.record());
         s.compute.host_reads(std::span<const float>(s.here).first(3), {"hear"});
         s.finish();
     },
     {"race on rank", "'tell"}},
    {"copies from a target that was not waited for",
     [](Rank& r) {
         Step s(r);
         s.compute.copy_out(Read(Step::of(s.state)), s.host(), {"tell"});
         s.communication.copy_in(std::span<const float>(s.here), Step::of(s.parameters), {"give"});
         s.finish();
     },
     {"race on rank", "'give'", "'tell'"}},
    {"host catches the race that it is told of",
     [](Rank& r) {
         Step s(r);
         s.compute.copy_out(Read(Step::of(s.state)), s.host(), {"tell"});
         try {
             s.compute.host_reads(std::span<const float>(s.here), {"hear"});
         } catch (const Error&) {
         }
         s.finish();
     },
     {"race on rank", "'hear'"}},
    {"host catches what is wrong with its event",
     [](Rank& r) {
         Step s(r);
         Event never = s.compute.record();
         never.sequence += 7;
         try {
             s.communication.wait_for(never);
         } catch (const Error&) {
         }
         s.finish();
     },
     {"event 7 of queue 'compute', which has queued 0"}},
    {"bucket without a loss scale for a reducer that needs one",
     [](Rank& r) {
         Step s(r);
         launch(s.compute, Multiply{}, BucketIn<FarMemory>(Step::of(s.gradient)).loss_scale,
                Step::of(s.gradient));
         s.finish();
     },
     {"'multiply' is given a scalar without memory", "loss scale of a bucket"}},
    {"message without bytes",
     [](Rank& r) {
         Step s(r);
         const QueuedMessage<FarMemory> m{.peer = 1 - r.rank()};
         r.transport().exchange({&m, 1});
         s.finish();
     },
     {"exchanges an empty message with rank"}},
    {"buffer is released while work on it is queued",
     [](Rank& r) {
         Step s(r);
         for (int i = 0; i < 100; ++i) s.update();  // some of it is still queued
         s.parameters = {};
         s.finish();
     },
     {"'release'"}},
    {"buffer is released while its message is posted",
     [](Rank& r) {
         Step s(r);
         if (r.rank() == 0) {
             s.send(s.gradient);
             meet(r);
             s.gradient = {};
             meet(r);
         } else {
             meet(r);
             meet(r);
             s.receive(s.gradient);
         }
         s.finish();
     },
     {"'release' while 'messages' (communication) is still queued on it"}},
    {"buffer is released under a receive that is never met",
     [](Rank& r) {
         Step s(r);
         if (r.rank() == 0) s.receive(s.gradient);
     },
     {"'release' while 'messages' (communication) is still queued on it"}},
    {"an exception leaves work behind that is queued on what it releases",
     [](Rank& r) {
         Step s(r);
         for (int i = 0; i < 100; ++i) s.update();
         throw Error("enough");
     },
     {"enough (Besides, ", "'release'"}},
    {"messages of a group overlap",
     [](Rank& r) {
         Step s(r);
         const View v = Step::of(s.gradient);
         const std::array<QueuedMessage<FarMemory>, 2> group{
             {{.peer = 1 - r.rank(), .in = writable_bytes_of(v.first(6))},
              {.peer = 1 - r.rank(), .out = bytes_of(v.last(6))}}};
         r.transport().exchange(group);
         s.finish();
     },
     {"race on rank", "'gradient'", "'messages'"}},
    {"kernel works on a message's memory",
     [](Rank& r) {
         Step s(r);
         if (r.rank() == 0) {
             s.receive(s.gradient);
             s.backward();
             meet(r);
         } else {
             meet(r);
             s.send(s.gradient);
         }
         s.finish();
     },
     {"race on rank 0", "'gradient'", "'fill'"}},
    {"kernel works on a released buffer",
     [](Rank& r) {
         Step s(r);
         const View stale = Step::of(s.state);
         s.state = {};
         launch(s.compute, kernels::Fill<float>{1}, stale);
         s.finish();
     },
     {"'fill' (compute) writes 'optimizer state', which was released"}},
    {"kernel works beyond its buffer",
     [](Rank& r) {
         Step s(r);
         const View gradient = Step::of(s.gradient);
         const auto bytes = FarMemory::seen(gradient);
         auto* const begin = reinterpret_cast<float*>(const_cast<std::byte*>(bytes.data()));
         launch(s.compute, kernels::Fill<float>{1}, FarMemory::view(begin, 9));
         s.finish();
     },
     {"'fill' (compute) writes 'gradient' up to byte 36 of 32"}},
    {"kernel works on the memory of another rank",
     [](Rank& r) {
         Step s(r);
         static std::array<View, 2> views;
         views[static_cast<std::size_t>(r.rank())] = Step::of(s.gradient);
         meet(r);
         launch(s.compute, kernels::Fill<float>{1}, views[static_cast<std::size_t>(1 - r.rank())]);
         s.finish();
     },
     {"memory of no buffer of rank"}},
    {"event of another rank's queue",
     [](Rank& r) {
         Step s(r);
         static std::array<Event, 2> events;
         s.backward();
         events[static_cast<std::size_t>(r.rank())] = s.compute.record();
         meet(r);
         s.communication.wait_for(events[static_cast<std::size_t>(1 - r.rank())]);
         s.finish();
     },
     {"waits for an event of queue 'compute' of rank"}},
    {"event that was never recorded",
     [](Rank& r) {
         Step s(r);
         s.backward();
         Event e = s.compute.record();
         e.sequence += 5;
         (void)s.communication.wait(e);
     },
     {"waits for event 6 of queue 'compute', which has queued 1"}},
    {"state is settled before the decision",
     [](Rank& r) {
         Step s(r);
         launch(s.compute, kernels::Fill<float>{0}, Step::of(s.state));  // decides
         launch(s.communication, kernels::CopyValues<float>{}, Read(Step::of(s.state)),
                Step::of(s.gradient));
         s.finish();
     },
     {"race on rank", "'optimizer state'", "'copy'"}},
    {"scalar is read before it is written",
     [](Rank& r) {
         Step s(r);
         launch(s.compute, kernels::Fill<float>{2}, Step::of(s.state));
         launch(s.communication, Multiply{},
                DeviceScalar<float, FarMemory>{Read(Step::of(s.state)).first(1)},
                Step::of(s.gradient));
         s.finish();
     },
     {"race on rank", "'optimizer state'", "'multiply'"}},
    {"two queues share a scratch",
     [](Rank& r) {
         Step s(r);
         launch(s.compute, kernels::CopyValues<float>{}, Read(Step::of(s.gradient)),
                Step::of(s.state));
         launch(s.communication, kernels::CopyValues<float>{}, Read(Step::of(s.parameters)),
                Step::of(s.state));
         s.finish();
     },
     {"race on rank", "'optimizer state'", "writes"}},
    {"forward reads parameters that an update writes",
     [](Rank& r) {
         Step s(r);
         s.update();
         launch(s.communication, kernels::CopyValues<float>{}, Read(Step::of(s.parameters)),
                Step::of(s.state));
         s.finish();
     },
     {"race on rank", "'parameters'", "reads"}},
    {"buckets of other lengths on one rank",
     [](Rank& r) {
         Step s(r);
         const std::size_t count = r.rank() == 0 ? 8 : 6;
         (void)s.reducer.all_reduce(r.transport(),
                                    BucketIn<FarMemory>(Step::of(s.gradient).first(count)));
         s.finish();
     },
     {"bytes", "Reduce the same buckets in the same order on every rank"}},
    {"copy in that is longer than its view",
     [](Rank& r) {
         Step s(r);
         const std::vector<float> many(100, 7);
         s.compute.copy_in(std::span(many), Step::of(s.gradient), {"copy"});
         s.finish();
     },
     {"copies 400 bytes to memory of 32 ('copy')"}},
    {"copy out that is longer than its view",
     [](Rank& r) {
         Step s(r);
         std::vector<float> many(100);
         s.compute.copy_out(Read(Step::of(s.gradient)), std::span(many), {"copy"});
         s.finish();
     },
     {"copies 32 bytes to memory of 400 ('copy')"}},
    {"asks for an event of no queue",
     [](Rank& r) {
         Step s(r);
         (void)s.compute.reached({1, 77});
         s.finish();
     },
     {"an event of no queue"}},
    {"asks for an event of another rank's queue",
     [](Rank& r) {
         Step s(r);
         s.backward();
         static std::array<Event, 2> events;
         events[static_cast<std::size_t>(r.rank())] = s.compute.record();
         meet(r);
         (void)s.compute.reached(events[static_cast<std::size_t>(1 - r.rank())]);
         s.finish();
     },
     {"an event of queue 'compute' of rank"}},
    {"buckets in another order on one rank",
     [](Rank& r) {
         Step s(r);
         for (int i = 0; i < 2; ++i) {
             const int b = r.rank() == 0 ? i : 1 - i;
             const View half = Step::of(s.gradient).subspan(4 * std::size_t(b), 4);
             auto& link = gx::in_operation(r.transport(), {"all-reduce", 7, b});
             (void)s.reducer.all_reduce(link, BucketIn<FarMemory>(half));
         }
         s.finish();
     },
     {"messages bucket 0 of step 7", "messages bucket 1 of step 7",
      "Reduce the same buckets in the same order on every rank"}},
    {"one rank reduces once less",
     [](Rank& r) {
         Step s(r);
         s.reduce();
         if (r.rank() == 0) s.reduce();
         if (!s.communication.wait(s.communication.record()).complete())
             throw Error("rank 0 misses a message");
     },
     {"rank 0 misses a message"}},
    {"queues wait for each other",
     [](Rank& r) {
         Step s(r);
         const int peer = 1 - r.rank();
         const View v = Step::of(s.gradient);
         using Message = QueuedMessage<FarMemory>;
         const Message in{.peer = peer, .in = writable_bytes_of(v.first(4))};
         const Message out{.peer = peer, .out = bytes_of(v.last(4))};
         r.transport().exchange(std::span(&in, 1));  // both receive first: no group of both
         r.transport().exchange(std::span(&out, 1));
         s.finish();
     },
     {"hosts and queues all wait for each other", "its queue 'communication' stands at",
      "a message from rank"}},
    {"hosts wait for each other",
     [](Rank& r) {
         std::byte b{};
         (void)r.control().wait(r.control().receive(1 - r.rank(), 0, {&b, 1}));
     },
     {"hosts and queues all wait for each other", "rank 0 waits for a message"}},
};

TEST(FaultsOnFarMemory, AreFoundAndNamedInEveryOrder) {
    for (const Case& c : cases)
        for (const QueueProgress progress :
             {QueueProgress::late, QueueProgress::eager, QueueProgress::random})
            for (std::uint64_t seed = 1; seed <= 5; ++seed) {
                const std::string error = error_on(c, seed, progress);
                for (const std::string& words : c.says)
                    EXPECT_NE(error.find(words), std::string::npos)
                        << c.name << ": " << error << " (expected: " << words << ")";
            }
}

TEST(RightProgramsOnFarMemory, AreNotReported) {
    const Case right{"right",
                     [](Rank& r) {
                         Step s(r);
                         for (int step = 0; step < 3; ++step) {
                             s.backward();
                             s.communication.wait_for(s.compute.record());
                             s.reduce();
                             s.compute.wait_for(s.communication.record());
                             s.update();
                         }
                         s.finish();
                     },
                     {}};
    const Case polls{"asks until a copy is there",
                     [](Rank& r) {
                         Step s(r);
                         s.compute.copy_out(Read(Step::of(s.state)), s.host(), {"tell"});
                         const Event there = s.compute.record();
                         while (!s.compute.reached(there)) {
                         }
                         s.compute.host_reads(std::span<const float>(s.here), {"hear"});
                         s.finish();
                     },
                     {}};
    for (const QueueProgress progress :
         {QueueProgress::late, QueueProgress::eager, QueueProgress::random})
        for (std::uint64_t seed = 1; seed <= 20; ++seed) {
            EXPECT_EQ(error_on(right, seed, progress), "no error");
            EXPECT_EQ(error_on(polls, seed, progress), "no error");
        }
}

/// Ranks that poll for what needs both of them, as they may on GPUs.
TEST(FarMachine, PollingEnds) {
    for (const QueueProgress progress :
         {QueueProgress::late, QueueProgress::eager, QueueProgress::random})
        for (std::uint64_t seed = 1; seed <= 20; ++seed) {
            int ended = 0;
            FarWorld<>({.placement = {3, 1}, .seed = seed, .progress = progress}).run([&](Rank& r) {
                Step s(r);
                for (int step = 0; step < 3; ++step) {
                    s.backward();
                    s.communication.wait_for(s.compute.record());
                    s.reduce();
                    const Event reduced = s.communication.record();
                    while (!s.compute.reached(reduced)) {
                    }
                    s.update();
                }
                s.finish();
                ++ended;
            });
            EXPECT_EQ(ended, 3);
        }
}
/// Until an event that is behind messages with all other ranks, none of which may come.
void poll_for_sums(Rank& r) {
    Step s(r);
    s.backward();
    s.communication.wait_for(s.compute.record());
    s.reduce();
    const Event reduced = s.communication.record();
    while (!s.compute.reached(reduced)) {
    }
}
/// Until a message of the other rank, which sends none.
void poll_for_a_message(Rank& r) {
    Step s(r);
    const QueuedMessage<FarMemory> m{.peer = 1 - r.rank(),
                                     .in = writable_bytes_of(Step::of(s.gradient))};
    r.transport().exchange({&m, 1});
    const Event received = s.communication.record();
    while (!s.compute.reached(received)) {
    }
}
std::string error_of_ranks(int ranks, std::function<void(Rank&)> f) {
    return testing_support::error_of(
        [&] { FarWorld<>({.placement = {1, ranks}, .progress = QueueProgress::late}).run(f); });
}
TEST(FarMachine, PollingForWhatNothingReachesIsNamed) {
    const std::string error = error_of_ranks(2, poll_for_a_message);
    EXPECT_NE(error.find(" asks again and again for an event, and nothing else can go on: rank 0 "
                         "waits for queue 'communication'"),
              error.npos)
        << error;
}
TEST(FarMachine, PollingForARankThatHasLeftNamesIt) {
    FarWorld<> two({.placement = {1, 2}, .progress = QueueProgress::late});
    EXPECT_THROW(two.run([](Rank& r) {
        if (r.rank() == 0) poll_for_sums(r);
    }),
                 LostRank);
    Delivery waited;
    const std::string error = error_of_ranks(3, [&](Rank& r) {
        if (r.rank() == 0) poll_for_sums(r);
        if (r.rank() == 1) {
            Step s(r);
            s.reduce();
            waited = s.communication.wait(s.communication.record());
            throw LostRank({.rank = 1, .operation = "waiting"}, waited);
        }
    });
    EXPECT_EQ(waited.outcome, Delivery::Outcome::timed_out);
    EXPECT_EQ(waited.peer, 2);
    EXPECT_NE(error.find("rank 2"), error.npos) << error;
}
TEST(FarMachine, PollingEndsWithTheErrorOfAnotherRank) {
    EXPECT_EQ(error_of_ranks(3,
                             [](Rank& r) {
                                 if (r.rank() == 2) throw Error("rank 2 has an error");
                                 poll_for_sums(r);
                             }),
              "rank 2 has an error");
}

TEST(FaultsOnFarMemoryDeathTest, HostAccessesAreNamed) {
    const auto touch = [](std::size_t byte, bool write, bool release = false) {
        FarWorld<>({.placement = {1, 1}}).run([&](Rank& r) {
            Step s(r);
            const auto* const seen = FarMemory::seen(Step::of(s.gradient)).data();
            if (release) s.gradient = {};
            if (write) const_cast<std::byte&>(seen[byte]) = std::byte{1};
            else EXPECT_EQ(seen[byte], std::byte{0});
        });
    };
    // The system ends the process by SIGSEGV, a sanitizer by its report and status 1.
    const std::string sentence = "the host touches far memory: 'gradient' of rank 0, byte ";
    EXPECT_DEATH(touch(4, false), sentence + "4\\. Launch");
    EXPECT_DEATH(touch(4, true), sentence + "4\\. Launch");
    EXPECT_DEATH(touch(4, true, true), sentence + "4, which was released\\. Launch");
    EXPECT_DEATH(touch(100, true), sentence + "100, behind its [0-9]+ bytes\\. Launch");
    EXPECT_DEATH(touch(std::size_t{1} << 20, true), "memory of no buffer of rank 0\\. Launch");
}

// ---- After a loss --------------------------------------------------------------------------

constexpr std::array orders{QueueProgress::late, QueueProgress::eager, QueueProgress::random};

/// Rank 1 leaves, and rank 0 has queued f's work, of which it waits for nothing.
void alone(QueueProgress progress, FunctionRef<void(Step&)> f) {
    FarWorld<> world({{2, 1}, 1, progress});
    world.run([&](Rank& rank) {
        if (rank.rank() == 1) return;
        Step s(rank);
        f(s);
        s.finish();
    });
}
float first_of(Step& s, Buffer<float>& b) {
    s.compute.copy_out(Read(Step::of(b)), s.host(), {"copy"});
    EXPECT_TRUE(s.compute.wait(s.compute.record()).complete());
    return s.host()[0];
}
TEST(AbandonedQueues, RunWhatCanRunAndDropTheRest) {
    for (const QueueProgress progress : orders)
        alone(progress, [](Step& s) {
            launch(s.communication, kernels::Fill<float>{1}, Step::of(s.parameters));
            s.compute.wait_for(s.communication.record());
            launch(s.compute, Multiply{}, 2.0f, Step::of(s.parameters));
            s.compute.abandon();  // it needs the other queue of its rank
            s.communication.wait_for(s.compute.record());
            launch(s.communication, Multiply{}, 4.0f, Step::of(s.parameters));
            s.receive(s.gradient);
            launch(s.communication, Multiply{}, 8.0f, Step::of(s.parameters));
            const Event behind = s.communication.record();
            s.communication.abandon();
            EXPECT_TRUE(s.communication.reached(behind));
            s.compute.wait_for(behind);
            EXPECT_EQ(first_of(s, s.parameters), 8);
        });
}
TEST(AbandonedQueues, GiveUpTheirMessagesAndTheMemoryOfThese) {
    for (const QueueProgress progress : orders)
        alone(progress, [](Step& s) {
            for (int i = 0; i < 3; ++i) {
                s.receive(s.gradient);
                EXPECT_FALSE(s.communication.wait(s.communication.record()).complete());
                s.communication.abandon();
                s.compute.wait_for(s.communication.record());
                launch(s.compute, kernels::Fill<float>{float(i)}, Step::of(s.gradient));
                EXPECT_EQ(first_of(s, s.gradient), float(i)) << "and no race with the message";
            }
        });
}

}  // namespace
