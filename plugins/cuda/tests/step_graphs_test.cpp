// Step graphs: work captured once and replayed, in every order of the double.
#include <gx/cuda/step_graphs.hpp>

#include <algorithm>   // count
#include <functional>  // work
#include <numeric>     // iota
#include <string>      // sentences
#include <vector>      // the host's memory

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/cuda/launch.hpp>           // launch
#include <gx/cuda_testing/runtime.hpp>  // reset, counters

#include <support/files.hpp>  // error_of, holds

namespace {

using namespace gx;
using cuda::DeviceContext;
using cuda::Queue;
using cuda::StepGraphs;
using cuda_testing::StreamProgress;
using testing_support::error_of;
using testing_support::holds;
using View = ViewIn<float, cuda::GpuMemory>;
using ReadView = ViewIn<const float, cuda::GpuMemory>;

constexpr StreamProgress all_progress[] = {StreamProgress::late, StreamProgress::eager,
                                           StreamProgress::random};

/// Queues of GPU 1, and 8 numbers there.
struct Rank {
    DeviceContext gpu{1};
    Queue queue{gpu, "compute"}, other{gpu, "communication", {.events = 8}}, third{gpu, "third"};
    Buffer<float> memory{&gpu.memory(), 8, "values"};
    StepGraphs graphs{};

    [[nodiscard]] View at(std::size_t i) { return memory.view<cuda::GpuMemory>().subspan(i, 1); }
    void set(std::size_t i, float x) { queue.copy_in(std::span<const float>(&x, 1), at(i), {"x"}); }
    [[nodiscard]] std::vector<float> values() {
        std::vector<float> here(8);
        queue.copy_out(ReadView(memory.view<cuda::GpuMemory>()), std::span(here), {"values"});
        EXPECT_TRUE(queue.wait(queue.record()).complete());
        return here;
    }
    void add(Queue& q, std::size_t from, std::size_t to) {
        launch(q, kernels::Accumulate<fp32>{}, ReadView(at(from)), at(to));
    }
    /// [1] += [0]; beside each other [2] += [1] and [3] += [1]; then [4] += [3].
    Event step() {
        add(queue, 0, 1);
        other.wait_for(queue.record());
        add(other, 1, 3);
        const Event done = other.record();
        add(queue, 1, 2);
        queue.wait_for(done);
        add(queue, 3, 4);
        return done;
    }
    void run(std::uint64_t key, const std::function<void()>& f) {
        graphs.run(key, queue, other, [&] {
            f();
            return true;
        });
    }
};
template <class F>
void in_all_orders(F f) {
    for (const StreamProgress progress : all_progress)
        for (const std::uint64_t seed : {1, 2, 3}) {
            cuda_testing::reset({.seed = seed, .progress = progress});
            {
                Rank rank;
                f(rank);
            }
            cuda_testing::expect_clean();
        }
}

// ---- A case worked by hand ---------------------------------------------------------------------

TEST(StepGraphs, ReadNewValuesFromTheMemoryOfTheDevice) {
    in_all_orders([](Rank& r) {
        for (const float x : {1.0f, 10.0f, 100.0f, 1000.0f}) {
            r.set(0, x);
            r.run(0, [&] { r.step(); });
        }
        EXPECT_EQ(r.values(), (std::vector<float>{1000, 1111, 1234, 1234, 1370, 0, 0, 0}));
        EXPECT_EQ(r.graphs.count(), 1u);
    });
}
TEST(StepGraphs, AreOneLaunchFromTheThirdTimeOn) {
    in_all_orders([](Rank& r) {
        std::vector<cuda_testing::RuntimeCounters> calls;
        for (int i = 0; i < 5; ++i) {
            const auto mark = cuda_testing::counters();
            r.run(0, [&] { r.step(); });
            calls.push_back(cuda_testing::counters() - mark);
        }
        EXPECT_EQ(calls[0].graph_launches, 0);
        EXPECT_EQ(calls[0].kernels, 4);
        EXPECT_EQ(calls[1].graph_launches, 1);
        for (const auto& c : {calls[2], calls[3], calls[4]}) {
            EXPECT_EQ(c.graph_launches, 1);
            EXPECT_EQ(c.kernels + c.copies + c.sets + c.host_functions, 0);
            EXPECT_EQ(c.allocations + c.host_allocations + c.host_synchronizations + c.queries, 0);
        }
        for (const auto& c : {calls[3], calls[4]}) {
            EXPECT_EQ(c.event_records, 3);
            EXPECT_EQ(c.event_waits, 2);
        }
        (void)r.values();
    });
}
TEST(StepGraphs, HaveOneForEachKeyUntilTheyAreDropped) {
    in_all_orders([](Rank& r) {
        r.set(0, 1);
        for (int i = 0; i < 6; ++i)
            r.run(std::uint64_t(i % 2), [&] { r.add(r.queue, 0, i % 2 == 0 ? 5 : 6); });
        EXPECT_EQ(r.graphs.count(), 2u);
        r.graphs.clear();
        EXPECT_EQ(r.graphs.count(), 0u);
        for (int i = 0; i < 3; ++i) r.run(0, [&] { r.add(r.queue, 0, 7); });  // other work now
        EXPECT_EQ(r.values(), (std::vector<float>{1, 0, 0, 0, 0, 3, 3, 3}));
    });
}
TEST(StepGraphs, EventsOfAGraphAreReachedWithIt) {
    in_all_orders([](Rank& r) {
        std::vector<Event> done;
        r.set(0, 1);
        for (int i = 0; i < 6; ++i) r.run(0, [&] { done.push_back(r.step()); });
        EXPECT_TRUE(r.other.wait(done[4]).complete());
        for (int i = 0; i < 5; ++i) EXPECT_TRUE(r.other.reached(done[std::size_t(i)]));
        r.add(r.other, 1, 5);  // behind the graph
        r.queue.wait_for(r.other.record());
        EXPECT_EQ(r.values()[5], 6);
    });
}
/// A copy out is a node, which brings the values to each run's wait.
TEST(StepGraphs, CopyToTheHost) {
    in_all_orders([](Rank& r) {
        float here[2] = {};
        float before = 0;
        for (int i = 0; i < 6; ++i) {
            r.set(0, float(i + 1));
            const auto mark = cuda_testing::counters();
            Event copied{};
            r.run(0, [&] {
                r.add(r.queue, 0, 1);
                r.other.wait_for(r.queue.record());
                r.add(r.other, 1, 3);
                r.other.copy_out(ReadView(r.at(3)), std::span(&here[1], 1), {"sum"});
                r.queue.wait_for(r.other.record());
                r.queue.copy_out(ReadView(r.at(1)), std::span(here, 1), {"values"});
                copied = r.queue.record();
            });
            const auto calls = cuda_testing::counters() - mark;
            EXPECT_EQ(calls.copies, i < 2 ? 2 : 0);
            EXPECT_EQ(calls.host_allocations, 0);
            EXPECT_TRUE(r.third.wait(copied).complete());  // those of both queues
            r.queue.host_reads(std::span<const float>(here, 1), {"values"});
            before += float(i + 1);
            EXPECT_EQ(here[0], before);
            EXPECT_EQ(here[1], before * (float(i) + 3) / 3);  // 1, 1 + 3, 1 + 3 + 6, ...
        }
    });
}
TEST(StepGraphs, CopyToTheHostAtItsOwnTime) {
    cuda_testing::reset({.progress = StreamProgress::late, .check_at_exit = false});
    Rank r;
    float here[2] = {};
    const auto copy = [&](float& to) {
        r.run(0, [&] { r.queue.copy_out(ReadView(r.at(0)), std::span(&to, 1), {"x"}); });
    };
    r.set(0, 1);
    for (int i = 0; i < 3; ++i) copy(here[0]);
    EXPECT_EQ(here[0], 0) << "nobody has waited";
    EXPECT_DEATH(r.queue.host_reads(std::span<const float>(here), {"x"}),
                 "target of a copy that it did not wait for");
    EXPECT_TRUE(holds(error_of([&] { copy(here[1]); }), "had other arguments"));
    EXPECT_TRUE(r.queue.wait(r.queue.record()).complete());
    EXPECT_EQ(here[0], 1);
    EXPECT_EQ(here[1], 0);
}
TEST(StepGraphs, BringNothingOfARunThatFails) {
    in_all_orders([](Rank& r) {
        float here = 0;
        const auto copy = [&] { r.queue.copy_out(ReadView(r.at(0)), std::span(&here, 1), {"x"}); };
        r.set(0, 1);
        for (int i = 0; i < 3; ++i) r.run(0, copy);
        EXPECT_TRUE(r.queue.wait(r.queue.record()).complete());
        EXPECT_EQ(here, 1);
        here = 7;
        r.graphs.run(0, r.queue, r.other, [&] {
            copy();
            return false;
        });
        EXPECT_TRUE(r.queue.wait(r.queue.record()).complete());
        EXPECT_EQ(here, 7);
    });
}
/// Graphs of one queue that copy to two places: each brings its own, whichever of them runs.
TEST(StepGraphs, CopyToTheHostFromOneOfTwoGraphs) {
    in_all_orders([](Rank& r) {
        float here[2] = {};
        const auto copy = [&](std::size_t i) {
            r.run(i, [&] { r.queue.copy_out(ReadView(r.at(i)), std::span(&here[i], 1), {"x"}); });
        };
        for (int i = 0; i < 3; ++i)
            for (const std::size_t g : {0u, 1u}) copy(g);
        EXPECT_TRUE(r.queue.wait(r.queue.record()).complete());
        for (const std::vector<std::size_t>& graphs :
             {std::vector<std::size_t>{0}, {1}, {0, 1}, {1, 0}}) {
            for (const std::size_t g : graphs) {
                r.set(g, here[g] + 1);
                copy(g);
            }
            const float expected[] = {here[0] + float(std::ranges::count(graphs, 0u)),
                                      here[1] + float(std::ranges::count(graphs, 1u))};
            r.third.wait_for(r.queue.record());
            EXPECT_TRUE(r.third.wait(r.third.record()).complete());
            EXPECT_EQ(here[0], expected[0]);
            EXPECT_EQ(here[1], expected[1]);
        }
    });
}
/// An event that was the last in front of the graph orders it already.
TEST(StepGraphs, NeedNoWaitForWhatIsInFrontOfThem) {
    in_all_orders([](Rank& r) {
        for (const float x : {1.0f, 10.0f, 100.0f, 1000.0f}) {
            r.set(0, x);
            const Event is_set = r.queue.record();
            r.run(0, [&] {
                r.other.wait_for(is_set);
                r.add(r.other, 0, 1);
                r.queue.wait_for(r.other.record());
            });
        }
        EXPECT_EQ(r.values()[1], 1111);
    });
}
/// The pool has 8 events: one that 7 others follow, up to the end of a graph, is still its own.
TEST(StepGraphs, LeaveTheEventsInFrontOfThem) {
    cuda_testing::reset({.progress = StreamProgress::late});
    Rank r;
    Event in_front{};
    for (int i = 0; i < 3; ++i) {
        (void)r.values();
        in_front = r.other.record();
        r.run(0, [&] {  // one record of run(), five here, and one of its end
            r.add(r.queue, 0, 1);
            for (int k = 0; k < 5; ++k) r.queue.wait_for(r.other.record());
        });
    }
    const std::int64_t before = cuda_testing::counters().operations;
    EXPECT_TRUE(r.other.wait(in_front).complete());
    EXPECT_EQ(cuda_testing::counters().operations, before) << "the graph was waited for";
    (void)r.values();
}
TEST(StepGraphs, CopyAsMuchToTheHostAsIsPinned) {
    in_all_orders([](Rank& r) {
        Queue small(r.gpu, "small", {.graph_bytes = 128});
        float here[3] = {};
        const auto run = [&](std::size_t copies) {
            r.graphs.run(copies, small, r.other, [&, copies] {
                for (std::size_t i = 0; i < copies; ++i)
                    small.copy_out(ReadView(r.at(0)), std::span(&here[i], 1), {"x"});
                return true;
            });
        };
        for (int i = 0; i < 3; ++i) run(2);
        run(3);
        EXPECT_TRUE(holds(error_of([&] { run(3); }), "more to the host than", "128 bytes"));
        run(2);
        (void)small.wait(small.record());
    });
}
TEST(StepGraphs, MayHaveMoreEventsThanTheirQueues) {
    in_all_orders([](Rank& r) {
        const auto many = [&] {
            for (int i = 0; i < 20; ++i) {
                r.add(r.other, 0, 1);
                r.queue.wait_for(r.other.record());
                r.add(r.queue, 1, 2);
                r.other.wait_for(r.queue.record());
            }
        };
        r.set(0, 1);
        for (int i = 0; i < 4; ++i) r.run(0, many);
        EXPECT_EQ(r.values()[1], 80);
        EXPECT_EQ(r.values()[2], 80 * 81 / 2);
    });
}

// ---- A property: any step ----------------------------------------------------------------------

RC_GTEST_PROP(StepGraphs, GiveWhatTheirWorkGives, (std::uint64_t seed)) {
    struct Call {
        int kind;
        std::size_t from, to;
    };
    const auto calls = *rc::gen::container<std::vector<Call>>(
        rc::gen::build<Call>(rc::gen::set(&Call::kind, rc::gen::inRange(0, 4)),
                             rc::gen::set(&Call::from, rc::gen::inRange<std::size_t>(0, 4)),
                             rc::gen::set(&Call::to, rc::gen::inRange<std::size_t>(0, 4))));
    const auto result_of = [&](bool captures) {
        cuda_testing::reset({.seed = seed, .progress = all_progress[seed % 3]});
        Rank r;
        const auto step = [&] {
            for (const Call& c : calls) {
                if (c.kind == 0 && c.from != c.to) r.add(r.queue, c.from, c.to);
                if (c.kind == 1 && c.from != c.to) r.add(r.other, c.from + 4, c.to + 4);
                if (c.kind == 2) {
                    r.queue.wait_for(r.other.record());
                    r.add(r.queue, 4 + c.from, c.to);
                    r.other.wait_for(r.queue.record());
                }
                if (c.kind == 3) {
                    r.other.wait_for(r.queue.record());
                    r.add(r.other, c.from, 4 + c.to);
                    r.queue.wait_for(r.other.record());
                }
            }
        };
        for (int i = 0; i < 4; ++i) {
            r.set(0, float(i + 1));
            r.other.wait_for(r.queue.record());
            if (captures) r.run(0, step);
            else step();
            r.queue.wait_for(r.other.record());
        }
        return r.values();
    };
    RC_ASSERT(result_of(true) == result_of(false));
}

// ---- Work that is not the same, and errors -----------------------------------------------------

TEST(StepGraphs, RefuseOtherWorkThanTheyCaptured) {
    const auto error_at_the_third = [](const std::function<void(Rank&)>& third) {
        cuda_testing::reset({.check_at_exit = false});
        Rank r;
        r.run(0, [&] { r.step(); });
        r.run(0, [&] { r.step(); });
        std::string error;
        try {
            r.run(0, [&] { third(r); });
        } catch (const NotRepeated& e) {
            error = e.what();
        }
        EXPECT_EQ(r.graphs.count(), error.empty() ? 1u : 0u);
        (void)r.values();  // the queues go on
        EXPECT_EQ(cuda_testing::first_misuse(), "");
        return error;
    };
    EXPECT_EQ(error_at_the_third([](Rank& r) { r.step(); }), "");
    EXPECT_EQ(error_at_the_third([](Rank& r) { r.add(r.queue, 0, 5); }),
              "call 1, 'accumulate', had other arguments when it was captured");
    EXPECT_EQ(error_at_the_third([](Rank& r) { r.add(r.other, 0, 1); }),
              "call 1, 'accumulate', had other arguments when it was captured");
    EXPECT_EQ(error_at_the_third([](Rank& r) { launch(r.queue, kernels::Scale{2}, r.at(1)); }),
              "call 1, 'scale', was 'accumulate' when it was captured");
    EXPECT_EQ(error_at_the_third([](Rank& r) { r.add(r.queue, 0, 1); }),
              "call 2, 'cudaEventRecord', was captured and is not made");
    EXPECT_EQ(error_at_the_third([](Rank& r) {
                  r.step();
                  r.add(r.queue, 0, 1);
              }),
              "call 9, 'accumulate', comes behind the 8 calls that were captured");
}
TEST(StepGraphs, RefuseWhatAGraphCanNotHold) {
    for (const int time : {1, 2}) {
        const auto error = [time](const std::function<void(Rank&)>& work) {
            cuda_testing::reset({.check_at_exit = false});
            Rank r;
            for (int i = 0; i < time; ++i) r.run(0, [&] { r.step(); });
            return error_of([&] { r.run(0, [&] { work(r); }); });
        };
        EXPECT_TRUE(holds(error([](Rank& r) { r.set(0, 1); }), "a copy from the host"));
        EXPECT_TRUE(holds(error([](Rank& r) { (void)r.queue.wait(r.queue.record()); }),
                          time == 1 ? "a wait of the host" : "call 1"));
        EXPECT_TRUE(
            holds(error([](Rank& r) { (void)r.third.record(); }), "work of a queue beside"));
        EXPECT_TRUE(
            holds(error([](Rank& r) { r.third.wait_for(Event{1, 0}); }), "work of a queue beside"));
    }
}
TEST(StepGraphs, RefuseCallsThatAReplayWouldRepeat) {
    const auto error_of_runs = [](const std::function<void(Rank&)>& beside) {
        cuda_testing::reset({.check_at_exit = false});
        Rank r;
        const auto step = [&] {
            r.step();
            beside(r);
        };
        for (int i = 0; i < 2; ++i) r.run(0, step);
        const std::string error = error_of([&] { r.run(0, step); });
        EXPECT_EQ(r.graphs.count(), 0u);
        (void)r.values();  // the queues go on
        EXPECT_EQ(cuda_testing::first_misuse(), "");
        return error;
    };
    const auto clear = [](Rank& r, const Queue& q) {
        EXPECT_EQ(
            cudaMemsetAsync(cuda::GpuMemory::open(r.at(0)).data, 0, sizeof(float), q.stream()),
            cudaSuccess);
    };
    EXPECT_TRUE(holds(error_of_runs([&](Rank& r) { clear(r, r.queue); }),
                      "others queue work, 1 a step", "gx::cuda::launch()"));
    EXPECT_TRUE(holds(error_of_runs([&](Rank& r) {
                          r.other.wait_for(r.queue.record());
                          clear(r, r.other);
                          r.queue.wait_for(r.other.record());
                      }),
                      "others queue work, 1 a step"));
}
struct Stops {};
TEST(StepGraphs, GoOnWithoutAGraphThatEndedInAnException) {
    for (const int time : {0, 1, 2})
        in_all_orders([time](Rank& r) {
            r.set(0, 1);
            for (int i = 0; i < time; ++i) r.run(0, [&] { r.step(); });
            Event inside{};
            EXPECT_THROW(r.run(0,
                               [&] {
                                   r.add(r.queue, 0, 1);
                                   inside = r.queue.record();
                                   r.other.wait_for(inside);
                                   r.add(r.other, 1, 3);
                                   throw Stops{};
                               }),
                         Stops);
            EXPECT_TRUE(r.queue.wait(inside).complete());
            for (int i = 0; i < 4; ++i) r.run(0, [&] { r.step(); });
            EXPECT_EQ(r.values()[1], float(4 + time + (time == 0)));
        });
}
TEST(StepGraphs, RunNothingOfWhatIsNotToRun) {
    in_all_orders([](Rank& r) {
        r.set(0, 1);
        for (int i = 0; i < 3; ++i) r.run(0, [&] { r.add(r.queue, 0, 1); });
        r.graphs.run(0, r.queue, r.other, [&] {
            r.add(r.queue, 0, 1);
            r.graphs.clear();  // as where a communicator is aborted
            return false;
        });
        EXPECT_EQ(r.graphs.count(), 0u);
        EXPECT_EQ(r.values()[1], 3);
    });
}
TEST(StepGraphs, NameALaunchThatFails) {
    cuda_testing::reset({.check_at_exit = false});
    Rank r;
    for (int i = 0; i < 2; ++i) r.run(0, [&] { r.step(); });
    cuda_testing::fail_launch(1);
    EXPECT_TRUE(holds(error_of([&] { r.run(0, [&] { r.step(); }); }), "cudaGraphLaunch", "GPU 1"));
}

// ---- Hashes of calls ---------------------------------------------------------------------------

struct Padded {
    float a;
    bool b;
    double c;
};
struct Nested {
    Padded p;
    const int* q;
};
std::uint64_t hash(const auto&... x) {
    cuda::CallHash h;
    (h.add(x), ...);
    return h.value();
}
TEST(CallHash, CountsEachMemberAndNoPadding) {
    const int n = 0;
    alignas(Nested) std::byte filled[sizeof(Nested)];
    std::memset(filled, 0x5a, sizeof filled);
    const auto* const other = new (filled) Nested{{1, true, 2}, &n};
    const Nested mine{{1, true, 2}, &n};
    EXPECT_EQ(hash(mine), hash(*other));
    const std::vector<Nested> others{
        {{2, true, 2}, &n}, {{1, false, 2}, &n}, {{1, true, 3}, &n}, {{1, true, 2}, nullptr}};
    for (const Nested& x : others) EXPECT_NE(hash(mine), hash(x));
    EXPECT_NE(hash(1, 2), hash(2, 1));
    EXPECT_NE(hash(0.0f), hash(-0.0f));
}

}  // namespace
