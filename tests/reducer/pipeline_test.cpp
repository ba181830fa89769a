#include <gx/reducer/pipeline.hpp>

#include <array>      // ranks
#include <atomic>     // counts
#include <limits>     // largest bucket
#include <memory>     // buffers
#include <stdexcept>  // runtime_error
#include <string>     // sentences
#include <variant>    // monostate
#include <vector>     // buffers

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/threads/threads.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/reference/ring.hpp>
#include <gx/testing/far/world.hpp>
#include <gx/testing/rows.hpp>

namespace {

using gx::Pipeline;
using gx::testing::Rows;
using Ring = gx::Ring<gx::fp16>;
using Late = gx::DoubleBuffered<Ring>;

/// Notes the lengths it is asked to reduce, and leaves them as they are.
struct Noting {
    using wire_type = gx::fp32;
    static constexpr int channels = 1, staleness = 0;
    [[maybe_unused]] static constexpr bool asynchronous = true;
    std::vector<std::size_t>* lengths = nullptr;
    void reserve(const gx::ReducePlan&) {}
    gx::ReduceReport all_reduce(gx::Transport auto&, const gx::Bucket& bucket) {
        lengths->push_back(bucket.size());
        return {};
    }
    gx::StateList state() { return {}; }
};
/// The same, but not beside the computation.
struct NotingNow : Noting {
    [[maybe_unused]] static constexpr bool asynchronous = false;
};

// ---- Where gradients lie -------------------------------------------------------------------
/// Memory of the host that counts what is allocated.
struct CountingMemory : gx::MemoryResource {
    std::vector<std::unique_ptr<gx::AlignedBuffer<std::byte>>> buffers{};
    std::byte* allocate(std::size_t bytes, const gx::Label&) override {
        const auto count = static_cast<std::int64_t>(bytes);
        return buffers.emplace_back(std::make_unique<gx::AlignedBuffer<std::byte>>(count))
            ->span()
            .data();
    }
    void release(std::byte*, std::size_t) noexcept override {}
    [[nodiscard]] const void* memory() const override { return &gx::memory_id<gx::HostMemory>; }
};
/// A transport that has a place for what ranks share.
template <class T>
struct Sharing : gx::TransportOver<T> {
    CountingMemory* memory;
    Sharing(T& link, CountingMemory& m) : gx::TransportOver<T>(link), memory(&m) {}
    [[nodiscard]] gx::MemoryResource* shared_buffers() const { return memory; }
};
struct InPlace : Ring {
    [[maybe_unused]] static constexpr bool works_in_place = true;
};
template <class R>
std::size_t shared_by() {
    CountingMemory memory;
    gx::Threads<1>{}.run([&](auto& rank) {
        Sharing link(rank.transport(), memory);
        const Pipeline pipeline(rank.stream(), link, {.elements = 100}, R());
    });
    return memory.buffers.size();
}
TEST(Pipeline, KeepsGradientsInSharedMemoryForReducersThatWorkThere) {
    EXPECT_EQ(shared_by<InPlace>(), 1u);
    EXPECT_EQ((shared_by<gx::DoubleBuffered<gx::Bucketed<InPlace, 32>>>()), 2u);
    EXPECT_EQ(shared_by<Ring>(), 0u) << "messages are quicker from the host's own memory";
}

/// A transport that has a place for its messages too.
template <class T>
struct WithPlaceForMessages : Sharing<T> {
    CountingMemory* messages;
    WithPlaceForMessages(T& link, CountingMemory& shared, CountingMemory& m)
        : Sharing<T>(link, shared), messages(&m) {}
    [[nodiscard]] gx::MemoryResource* message_buffers() const { return messages; }
};
TEST(Pipeline, KeepsWhatMessagesAreReadFromWhereTheTransportHasThemBest) {
    CountingMemory shared, messages, shared_in_place, messages_in_place;
    gx::Threads<2>{}.run([&](auto& rank) {
        if (rank.rank() == 1) return;
        WithPlaceForMessages link(rank.transport(), shared, messages);
        const Pipeline pipeline(rank.stream(), link, {.elements = 100}, Ring());
        EXPECT_EQ(messages.buffers.size(), 3u) << "gradient, scratch and fp16 values";
        WithPlaceForMessages other(rank.transport(), shared_in_place, messages_in_place);
        const Pipeline in_place(rank.stream(), other, {.elements = 100}, InPlace());
        EXPECT_EQ(messages_in_place.buffers.size(), 2u);
    });
    EXPECT_EQ(shared.buffers.size(), 0u);
    EXPECT_EQ(shared_in_place.buffers.size(), 1u);
}

// ---- Buckets, worked by hand: 10 elements in buckets of 4, from the end -------------------
TEST(Pipeline, QueuesABucketWhenItIsWhole) {
    std::vector<std::size_t> lengths;
    gx::Threads<1>{}.run([&](auto& rank) {
        NotingNow reducer;
        reducer.lengths = &lengths;
        Pipeline pipeline(rank.stream(), rank.transport(), {.elements = 10, .bucket_elements = 4},
                          reducer);
        EXPECT_EQ(pipeline.buckets(), 3);
        (void)pipeline.begin(0);
        const auto queued_at = [&](std::size_t watermark) {
            pipeline.ready(watermark);
            return lengths;
        };
        EXPECT_EQ(queued_at(7), (std::vector<std::size_t>{}));
        EXPECT_EQ(queued_at(6), (std::vector<std::size_t>{4}));  // [6, 10)
        EXPECT_EQ(queued_at(3), (std::vector<std::size_t>{4}));
        EXPECT_EQ(queued_at(1), (std::vector<std::size_t>{4, 4}));     // [2, 6)
        EXPECT_EQ(queued_at(0), (std::vector<std::size_t>{4, 4, 2}));  // [0, 2)
        EXPECT_EQ(pipeline.collect(0)->buckets, 3);
    });
}

/// f(a pipeline of R on one rank).
template <class R>
void with_pipeline(const gx::PipelineOptions& options, auto f) {
    gx::Threads<1>{}.run([&](auto& rank) {
        Pipeline pipeline(rank.stream(), rank.transport(), options, R());
        f(pipeline);
    });
}
TEST(Pipeline, TakesTheBucketThatTheReducerAsksFor) {
    const auto in_a_bucket = [](std::int64_t elements) {
        return [=](auto& pipeline) { EXPECT_EQ(pipeline.bucket_elements(), elements); };
    };
    with_pipeline<Ring>({.elements = 100}, in_a_bucket(100));
    with_pipeline<gx::Bucketed<Ring, 32>>({.elements = 100}, in_a_bucket(16));
    with_pipeline<gx::DoubleBuffered<gx::Bucketed<Ring, 32>>>(
        {.elements = 100}, [](auto& pipeline) { EXPECT_EQ(pipeline.buckets(), 7); });
    with_pipeline<Late>({.elements = 100}, in_a_bucket(100));
}
TEST(Pipeline, ABucketOfAnySizeHoldsTheWholeVector) {
    for (const std::int64_t most : {std::int64_t{101}, std::numeric_limits<std::int64_t>::max()})
        with_pipeline<Ring>({.elements = 100, .bucket_elements = most},
                            [](auto& pipeline) { EXPECT_EQ(pipeline.buckets(), 1); });
}

// ---- Staleness, against the list made one by one -------------------------------------------
/// What each step applies: the index and the values, of rank 0; drained ones at the end.
template <class R>
std::vector<std::pair<std::uint64_t, std::vector<float>>> applied(int steps, std::uint64_t seed,
                                                                  std::int64_t elements,
                                                                  std::int64_t bucket_elements) {
    std::vector<std::pair<std::uint64_t, std::vector<float>>> list;
    gx::Threads<3>{}.run([&](auto& rank) {
        Pipeline pipeline(rank.stream(), rank.transport(),
                          {.elements = elements, .bucket_elements = bucket_elements}, R());
        const auto note = [&](const gx::Reduced& g) {
            EXPECT_TRUE(g.report.complete());
            if (rank.rank() == 0)
                list.emplace_back(g.index, std::vector<float>(g.values.begin(), g.values.end()));
        };
        for (std::uint64_t t = 0; t < static_cast<std::uint64_t>(steps); ++t) {
            const auto rows = gx::testing::wide_magnitudes(seed + t, 3, elements);
            std::copy(rows[static_cast<std::size_t>(rank.rank())].begin(),
                      rows[static_cast<std::size_t>(rank.rank())].end(), pipeline.begin(t).begin());
            pipeline.ready(static_cast<std::size_t>(elements / 2));
            pipeline.ready(0);
            const auto got = pipeline.collect(t);
            EXPECT_EQ(got.has_value(), t >= static_cast<std::uint64_t>(R::staleness));
            if (got) note(*got);
        }
        while (const auto late = pipeline.drain()) note(*late);
    });
    return list;
}

template <class R>
void staleness_is_exact() {
    const int steps = *rc::gen::inRange(0, 8);
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const auto elements = *rc::gen::inRange<std::int64_t>(1, 60),
               bucket = *rc::gen::inRange<std::int64_t>(1, 70);
    const auto list = applied<R>(steps, seed, elements, bucket);
    RC_ASSERT(static_cast<int>(list.size()) == steps);
    for (std::uint64_t u = 0; u < list.size(); ++u) {
        RC_ASSERT(list[u].first == u);
        const Rows rows = gx::testing::wide_magnitudes(seed + u, 3, elements);
        for (std::int64_t end = elements; end > 0; end -= bucket) {  // bucket by bucket, serially
            const auto begin = std::max<std::int64_t>(0, end - bucket);
            Rows part(3);
            for (std::size_t r = 0; r < 3; ++r)
                part[r].assign(rows[r].begin() + begin, rows[r].begin() + end);
            const auto mean = gx::reference::ring_mean<gx::fp16, gx::DivideSplit>(
                part, gx::reference::natural_order(3));
            RC_ASSERT(std::equal(mean.begin(), mean.end(), list[u].second.begin() + begin));
        }
    }
}
TEST(Pipeline, InStepGivesEachGradientAtItsStep) {
    EXPECT_TRUE(rc::check([] { staleness_is_exact<Ring>(); }));
}
TEST(Pipeline, DoubleBufferedIsOneStepLate) {
    EXPECT_TRUE(rc::check([] { staleness_is_exact<Late>(); }));
}
TEST(Pipeline, StalenessAddsUp) {
    using Later = gx::DoubleBuffered<gx::DoubleBuffered<Late>>;
    EXPECT_TRUE(rc::check([] { staleness_is_exact<Later>(); }));
}

// ---- In the memory of a device: reductions that wait for the next gradient -----------------
/// Means of 6 gradients on rank 0. Behind the third, pending() is asked for if `keeps`.
template <class R>
std::vector<std::vector<float>> means_on_devices(bool defers, bool keeps, std::uint64_t seed) {
    using M = gx::testing::FarMemory;
    std::vector<std::vector<float>> list;
    gx::testing::FarWorld<> world({.placement = {2, 1}, .seed = seed});
    world.run([&](gx::testing::FarRank<gx::NoDevice>& rank) {
        gx::testing::FarQueue compute(rank.machine(), rank.rank(), "compute");
        auto& reductions = rank.transport().queue();
        const gx::PipelineOptions options{
            .elements = 10, .bucket_elements = 4, .memory = &rank.memory(), .defers = defers};
        gx::PipelineOn<R, gx::testing::FarRank<gx::NoDevice>> pipeline(reductions, rank.transport(),
                                                                       options, R());
        const auto read = [&](gx::ViewIn<float, M> values) {
            std::vector<float> here(values.size());
            reductions.copy_out(gx::ViewIn<const float, M>(values), std::span(here), {"mean"});
            EXPECT_TRUE(reductions.wait(reductions.record()).complete());
            return here;
        };
        const auto note = [&](const gx::ReducedIn<M>& g) {
            std::vector<float> mean(g.values.size());
            compute.wait_for(g.reduced);  // all that orders the two queues
            compute.copy_out(gx::ViewIn<const float, M>(g.values), std::span(mean), {"mean"});
            EXPECT_TRUE(compute.wait(compute.record()).complete());
            if (rank.rank() == 0) list.push_back(mean);
        };
        constexpr bool is_late = R::staleness > 0;
        for (std::uint64_t t = 0; t < 6; ++t) {
            const bool asked = keeps && t == 3;
            EXPECT_EQ(pipeline.repeats(t), t >= std::uint64_t(R::staleness) && defers >= is_late);
            EXPECT_EQ(pipeline.has_deferred(), is_late && defers && t > 0 && !asked);
            const auto gradient = pipeline.begin(t);
            EXPECT_FALSE(pipeline.has_deferred());
            const auto rows = gx::testing::wide_magnitudes(t, 2, 10);
            const auto& mine = rows[static_cast<std::size_t>(rank.rank())];
            compute.copy_in(std::span<const float>(mine), gradient, {"gradient"});
            const auto queued = reductions.record().sequence;
            pipeline.ready(5, compute.record());
            pipeline.ready(0, compute.record());
            EXPECT_EQ(reductions.record().sequence == queued, is_late && defers);
            if (const auto g = pipeline.collect(t)) note(*g);
            if (t != 2 || !keeps) continue;
            const auto pending = pipeline.pending();
            EXPECT_EQ(pending.size(), std::size_t(R::staleness));
            for (const auto& p : pending) (void)read(p.values);
        }
        while (const auto late = pipeline.drain()) note(*late);
    });
    return list;
}
TEST(Pipeline, ReductionsThatAreDeferredChangeNoBit) {
    const auto check = []<class R>(std::type_identity<R>) {
        const auto expected = means_on_devices<R>(false, false, 1);
        EXPECT_EQ(expected.size(), 6u);
        for (const std::uint64_t seed : {2, 3, 4})
            for (const bool keeps : {false, true})
                EXPECT_EQ(means_on_devices<R>(true, keeps, seed), expected);
    };
    check(std::type_identity<Late>{});
    check(std::type_identity<gx::DoubleBuffered<Late>>{});
    const auto in_step = means_on_devices<Ring>(false, true, 1);
    EXPECT_EQ(in_step.size(), 6u);
    EXPECT_EQ(means_on_devices<Ring>(true, true, 1), in_step) << "nothing to defer";
}

TEST(Pipeline, CountsTheGradientsThatADeviceHasReduced) {
    using R = gx::DoubleBuffered<Late>;
    for (const bool defers : {false, true}) {
        gx::testing::FarWorld<> world(
            {.placement = {1, 1}, .progress = gx::testing::QueueProgress::late});
        world.run([&](gx::testing::FarRank<gx::NoDevice>& rank) {
            auto& reductions = rank.transport().queue();
            gx::testing::FarQueue compute(rank.machine(), rank.rank(), "compute");
            const std::vector<float> ones(10, 1.0f);
            gx::PipelineOn<R, gx::testing::FarRank<gx::NoDevice>> pipeline(
                reductions, rank.transport(),
                {.elements = 10, .bucket_elements = 4, .memory = &rank.memory(), .defers = defers},
                R());
            for (const int t : {0, 1}) {
                compute.copy_in(std::span(ones), pipeline.begin(std::uint64_t(t)), {"gradient"});
                pipeline.ready(0, compute.record());
                EXPECT_FALSE(pipeline.collect(std::uint64_t(t)));
                EXPECT_EQ(pipeline.complete(), defers ? 0 : t) << "nobody has waited";
                EXPECT_TRUE(reductions.wait(reductions.record()).complete());
                EXPECT_EQ(pipeline.complete(), defers ? t : t + 1);
            }
            while (pipeline.drain()) {
            }
        });
    }
}

// ---- A checkpoint in between ---------------------------------------------------------------
template <class R>
void resuming_equals_not_having_stopped(std::uint64_t stop_after) {
    constexpr std::uint64_t steps = 6;
    std::array<std::vector<std::vector<float>>, 2> runs;  // unbroken, resumed
    gx::Threads<2>{}.run([&](auto& rank) {
        for (const bool broken : {false, true}) {
            std::vector<std::vector<float>> list;
            const auto note = [&](const gx::Reduced& g) {
                EXPECT_EQ(g.index, list.size());
                list.emplace_back(g.values.begin(), g.values.end());
            };
            const gx::PipelineOptions options{.elements = 9, .bucket_elements = 4};
            std::optional<decltype(Pipeline(rank.stream(), rank.transport(), options, R()))>
                pipeline;
            pipeline.emplace(rank.stream(), rank.transport(), options, R());
            for (std::uint64_t t = 0; t < steps; ++t) {
                const auto rows = gx::testing::wide_magnitudes(t, 2, 9);
                std::copy(rows[static_cast<std::size_t>(rank.rank())].begin(),
                          rows[static_cast<std::size_t>(rank.rank())].end(),
                          pipeline->begin(t).begin());
                pipeline->ready(0);
                if (const auto got = pipeline->collect(t)) note(*got);
                if (!broken || t + 1 != stop_after) continue;
                std::vector<std::vector<float>> saved;  // as a checkpoint would
                std::vector<gx::PendingGradient> kept;
                for (const auto& p : pipeline->pending()) {
                    EXPECT_TRUE(p.complete);
                    saved.emplace_back(p.values.begin(), p.values.end());
                    kept.push_back({p.index, {}, true});
                }
                for (std::size_t i = 0; i < kept.size(); ++i) kept[i].values = saved[i];
                pipeline.emplace(rank.stream(), rank.transport(), options, R());
                pipeline->restore(t + 1, kept);
            }
            while (const auto late = pipeline->drain()) note(*late);
            EXPECT_EQ(list.size(), steps);
            if (rank.rank() == 0) runs[broken] = list;
        }
    });
    EXPECT_EQ(runs[0], runs[1]);
}
TEST(Pipeline, ResumingEqualsNotHavingStopped) {
    for (std::uint64_t stop = 1; stop <= 6; ++stop) {
        resuming_equals_not_having_stopped<Ring>(stop);
        resuming_equals_not_having_stopped<Late>(stop);
        resuming_equals_not_having_stopped<gx::DoubleBuffered<gx::DoubleBuffered<Late>>>(stop);
    }
}

// With nothing in flight it is late anew: gradient 5 comes back with step 5 + staleness.
template <class R>
void starts_anew_within_a_run() {
    gx::Threads<2>{}.run([](auto& rank) {
        Pipeline pipeline(rank.stream(), rank.transport(), {.elements = 9, .bucket_elements = 4},
                          R());
        pipeline.restore(5, {});
        std::uint64_t next = 5;
        for (std::uint64_t t = 5; t < 9; ++t) {
            std::ranges::fill(pipeline.begin(t), static_cast<float>(t));
            pipeline.ready(0);
            const auto got = pipeline.collect(t);
            ASSERT_EQ(got.has_value(), t >= 5 + std::uint64_t(R::staleness));
            if (!got) continue;
            EXPECT_EQ(got->index, next++);
            EXPECT_EQ(got->values[0], static_cast<float>(got->index));
        }
        while (const auto late = pipeline.drain()) EXPECT_EQ(late->index, next++);
        EXPECT_EQ(next, 9u);
    });
}
TEST(Pipeline, StartsAnewWithinARun) {
    starts_anew_within_a_run<Ring>();
    starts_anew_within_a_run<Late>();
    starts_anew_within_a_run<gx::DoubleBuffered<Late>>();
}

// ---- Faults ----------------------------------------------------------------------------------
TEST(Pipeline, SaysWhichBucketFailedAndWhoIsMissing) {
    gx::Threads<3>{}.run([](auto& rank) {
        Pipeline pipeline(rank.stream(), rank.transport(), {.elements = 12, .bucket_elements = 4},
                          Late());
        for (std::uint64_t t = 0; t < 3; ++t) {
            (void)pipeline.begin(t);
            if (t == 1 && rank.rank() == 1) {  // leaves within gradient 1, after its first bucket
                pipeline.ready(8);
                return;
            }
            pipeline.ready(0);
            const auto got = pipeline.collect(t);
            if (t == 0) continue;
            if (t == 1) {
                EXPECT_TRUE(got->report.complete());  // gradient 0
                continue;
            }
            EXPECT_EQ(got->index, 1u);
            EXPECT_FALSE(got->report.complete());
            EXPECT_EQ(got->report.delivery.peer, 1);
            EXPECT_EQ(got->failed_bucket, 1);
            const auto later = pipeline.drain();
            EXPECT_FALSE(later->report.complete()) << "after a failure nothing is sent";
            EXPECT_EQ(later->failed_bucket, 0);
        }
    });
}

struct GpuDied {};  // no std::exception

/// Breaks in its second bucket of gradient 0 on rank 1, and counts what it reduces.
struct Breaking {
    using wire_type = gx::fp32;
    static constexpr int channels = 1, staleness = 0;
    [[maybe_unused]] static constexpr bool asynchronous = true;
    std::array<std::atomic<int>, 2>* reduced = nullptr;
    void (*breaks)() = +[] { throw std::runtime_error("a broken cable"); };
    void reserve(const gx::ReducePlan&) {}
    gx::ReduceReport all_reduce(gx::Transport auto& link, const gx::Bucket& bucket) {
        ++(*reduced)[std::size_t(link.rank())];
        if (link.rank() == 1 && bucket.index == 1) breaks();
        return {};
    }
    gx::StateList state() { return {}; }
};
void expect_told(void (*breaks)(), const std::string& expected) {
    std::array<std::atomic<int>, 2> reduced{};
    std::string told;
    bool nested = false;
    try {
        gx::Threads<2>{}.run([&](auto& rank) {
            Pipeline pipeline(rank.stream(), rank.transport(),
                              {.elements = 16, .bucket_elements = 4}, Breaking{&reduced, breaks});
            (void)pipeline.begin(0);
            pipeline.ready(0);
            const auto got = pipeline.collect(0);
            if (rank.rank() == 0) return;
            EXPECT_FALSE(got->report.complete());
            EXPECT_EQ(got->failed_bucket, 1);
            EXPECT_EQ(got->report.delivery.peer, 1);
        });
    } catch (const gx::Error& e) {
        told = e.what();
        nested = dynamic_cast<const std::nested_exception*>(&e) != nullptr;
    }
    EXPECT_EQ(told, expected);
    EXPECT_EQ(nested, expected.starts_with("rank 1, step 0")) << "what was thrown stays in it";
    EXPECT_EQ(reduced[0], 4);
    EXPECT_EQ(reduced[1], 2) << "others would take what it sends for a later bucket";
}
TEST(Pipeline, ReducesNoBucketBehindOneWhoseReducerHasThrown) {
    const std::string where = "rank 1, step 0, bucket 1, all-reduce: ";
    expect_told(Breaking{}.breaks, where + "a broken cable");
    expect_told(+[] { throw gx::Error("a broken switch"); }, where + "a broken switch");
    expect_told(+[] { throw gx::Error("it saw rank 7"); }, "it saw rank 7");
    expect_told(+[] { throw gx::DeviceLost("a broken GPU"); }, "a broken GPU");
    expect_told(+[] { throw 7; }, where + "an exception of type int, which is no std::exception");
    expect_told(
        +[] { throw std::monostate(); },
        where + "an exception of type std::monostate, which is no std::exception");
}

TEST(Pipeline, AnErrorWithWorkInFlightDoesNotHang) {
    const auto run = [] {
        gx::Threads<2>({.deadline = std::chrono::hours(10)}).run([](auto& rank) {
            Pipeline pipeline(rank.stream(), rank.transport(), {.elements = 1000}, Late());
            (void)pipeline.begin(0);
            if (rank.rank() == 1) {
                int x = 0;  // stays until the world stops
                EXPECT_FALSE(rank.transport()
                                 .wait(rank.transport().receive(
                                     0, 99, std::as_writable_bytes(std::span(&x, 1))))
                                 .complete());
                return;
            }
            pipeline.ready(0);
            throw gx::Error("the disk is full");
        });
    };
    EXPECT_THROW(run(), gx::Error);
}

/// A stream whose tasks never end: every wait throws E.
template <class E>
struct ThrowsAtEachWait {
    gx::Event enqueue(gx::Task) { return {++queued}; }
    void wait(gx::Event) {
        ++waits;
        throw E{};
    }
    std::uint64_t queued = 0;
    int waits = 0;
};
struct forced_unwind {};  // named as Boost.Context's, which ends a fiber
template <class E>
int waits_at_the_end() {
    ThrowsAtEachWait<E> stream;
    gx::Threads<1>{}.run([&](auto& rank) {
        Pipeline pipeline(stream, rank.transport(), {.elements = 12}, gx::DoubleBuffered<Late>());
        for (std::uint64_t t = 0; t < 2; ++t) {
            (void)pipeline.begin(t);
            pipeline.ready(0);
            EXPECT_FALSE(pipeline.collect(t).has_value());
        }
    });
    return stream.waits;
}
TEST(Pipeline, EndsWithWorkInFlightThatThrowsAnything) {
    EXPECT_EQ(waits_at_the_end<std::bad_alloc>(), 2) << "for each gradient in flight";
    EXPECT_EQ(waits_at_the_end<GpuDied>(), 2);
    EXPECT_EQ(waits_at_the_end<int>(), 2);
}
TEST(Pipeline, EndsWithoutAWaitWhereNothingIsInFlight) {
    ThrowsAtEachWait<int> stream;
    gx::Threads<1>{}.run([&](auto& rank) {
        Pipeline pipeline(stream, rank.transport(), {.elements = 12}, Ring());
        (void)pipeline.begin(0);
    });
    EXPECT_EQ(stream.waits, 0);
}
TEST(Pipeline, LetsAForcedUnwindPass) {
    EXPECT_THROW((void)waits_at_the_end<forced_unwind>(), forced_unwind);
}

TEST(PipelineDeathTest, CallsOutOfTurnBreakTheContract) {
    const gx::PipelineOptions options{.elements = 4};
    EXPECT_DEATH(with_pipeline<Ring>({}, [](auto&) {}), "at least one element");
    EXPECT_DEATH(with_pipeline<Ring>(options, [](auto& p) { (void)p.begin(1); }), "in order");
    EXPECT_DEATH(with_pipeline<Ring>(options, [](auto& p) { (void)p.collect(0); }),
                 "follows ready");
    EXPECT_DEATH(with_pipeline<Ring>(options,
                                     [](auto& p) {
                                         (void)p.begin(0);
                                         (void)p.begin(1);
                                     }),
                 "collect the gradient");
    const gx::PendingGradient pending{.index = 2};
    EXPECT_DEATH(with_pipeline<Ring>(options, [&](auto& p) { p.restore(3, {&pending, 1}); }),
                 "as many gradients as the reducer is late");
    EXPECT_DEATH(with_pipeline<Ring>(options, [](auto& p) { p.ready(0); }), "begin a gradient");
    EXPECT_DEATH(with_pipeline<Late>(options, [&](auto& p) { p.restore(2, {&pending, 1}); }),
                 "a kept gradient of another step");
    EXPECT_DEATH(gx::testing::FarWorld<>({.placement = {1, 1}}).run([](auto& rank) {
        gx::PipelineOn<Ring, std::remove_reference_t<decltype(rank)>> p(
            rank.transport().queue(), rank.transport(), {.elements = 4, .memory = &rank.memory()},
            Ring());
        p.ready(0, rank.transport().queue().record());
    }),
                 "begin a gradient");
}

}  // namespace
