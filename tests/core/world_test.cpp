#include <gx/core/world.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

#include <vector>

namespace {

// The least rank and world; the functions are defined where a test runs them.
template <class D>
struct LeastRank {
    using Device = D;
    int rank() { return index; }
    int ranks() { return 2; }
    gx::Nanoseconds now() const { return {}; }
    gx::archetype::Transport& transport();
    gx::archetype::Stream& stream();
    std::unique_ptr<D> make_device(const gx::Graph&, gx::DeviceOptions);
    int index = 0;
};
template <class R>
struct LeastWorld {
    using Rank = R;
    int ranks() const { return 2; }
    gx::Placement placement() const { return {.machines = 1, .ranks_per_machine = 2}; }
    void run(gx::FunctionRef<void(R&)> f) {
        for (int i = 0; i < ranks(); ++i) {
            R rank{};
            rank.index = i;
            f(rank);
        }
    }
};

// ---- What the types promise ---------------------------------------------------------
using Talks = LeastRank<gx::NoDevice>;
using Trains = LeastRank<gx::archetype::Device>;
static_assert(gx::RankContext<Talks> && gx::RankContext<Trains>);
static_assert(gx::World<LeastWorld<Talks>> && gx::explain_world<LeastWorld<Talks>>());
static_assert(!gx::TrainingWorld<LeastWorld<Talks>>, "it has no device");
static_assert(gx::TrainingWorld<LeastWorld<Trains>>);
static_assert(gx::explain_training_world<LeastWorld<Trains>>());
static_assert(!gx::World<int>);

struct NoClock : Talks {
    void now() const;
};
static_assert(!gx::RankContext<NoClock> && !gx::World<LeastWorld<NoClock>>);
struct NoStream : Talks {
    int stream();
};
static_assert(!gx::RankContext<NoStream>);
struct NoTransport : Talks {
    int transport();
};
static_assert(!gx::RankContext<NoTransport>);
struct NoRun : LeastWorld<Talks> {
    void run();
};
static_assert(!gx::World<NoRun>);
struct NoPlacement : LeastWorld<Talks> {
    int placement() const;
};
static_assert(!gx::World<NoPlacement>);
struct OtherDevice : Trains {
    std::unique_ptr<gx::NoDevice> make_device(const gx::Graph&, gx::DeviceOptions);
};
static_assert(!gx::TrainingWorld<LeastWorld<OtherDevice>>);

// ---- The wire scale is the rank's ---------------------------------------------------------
struct TimesAnother : Talks {
    double wire_scale() const { return 2.5; }
};
TEST(World, WireScaleIsOneUnlessTheRankHasAnother) {
    EXPECT_EQ(gx::wire_scale_of(Talks()), 1);
    EXPECT_EQ(gx::wire_scale_of(TimesAnother()), 2.5);
}

// ---- So is the time of its work -------------------------------------------------------------
struct TimesWork : Talks {
    int timed_count(int) const;
    gx::Nanoseconds undisturbed_pass(int) const, undisturbed_update() const;
};
static_assert(gx::TimesItsWork<TimesWork>);
static_assert(!gx::TimesItsWork<Talks> && !gx::TimesItsWork<TimesAnother>);

// ---- Generic code needs the concept only -------------------------------------------------
std::vector<int> ranks_that_ran(gx::World auto& world) {
    std::vector<int> ran;
    auto note = [&](auto& rank) { ran.push_back(rank.rank()); };
    world.run(note);
    return ran;
}
TEST(World, RunsTheFunctionForEveryRank) {
    LeastWorld<Talks> world;
    EXPECT_EQ(ranks_that_ran(world), (std::vector<int>{0, 1}));
}

}  // namespace
