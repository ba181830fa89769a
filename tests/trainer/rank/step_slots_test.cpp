#include <gx/trainer/rank/step_slots.hpp>  // first, so the header is seen to stand alone

#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <gx/trainer/loss_scale.hpp>  // DynamicLossScale

namespace {

using namespace gx;
using namespace gx::detail::trainer;
using D = Decisions<DynamicLossScale>;
using Slots = StepSlots<D, 2, HostMemory>;

D start(float scale, int growth = 1000) {
    return D{DynamicLossScale({.initial = scale, .growth_interval = growth})};
}
const std::vector<float> good{1, 2}, bad{1, std::numeric_limits<float>::infinity()};
void decide(D& d, const std::vector<float>& mean) {
    Flag applied = 2;
    Decide<D>{}(mean, {&d, 1}, {&applied, 1});
    EXPECT_EQ(applied, d.applied ? 1 : 0);
}

TEST(Decisions, SkipWhatIsNotFinite) {
    D d = start(8);
    decide(d, good);
    EXPECT_TRUE(d.applied);
    decide(d, bad);
    EXPECT_FALSE(d.applied);
    EXPECT_EQ(d.skipped, 1);
    EXPECT_EQ(d.scale.scale(), 4);
}
TEST(Decisions, CountSkipsInARowAtTheFloorOnly) {
    D d = start(2);
    decide(d, bad);  // to 1: the floor
    EXPECT_EQ(d.skips_in_a_row, 1);
    decide(d, bad);
    EXPECT_EQ(d.skips_in_a_row, 2);
    decide(d, good);
    EXPECT_EQ(d.skips_in_a_row, 0);
    D high = start(1024);
    decide(high, bad);
    EXPECT_EQ(high.skips_in_a_row, 0) << "a lower scale may mend it";
    EXPECT_EQ(high.skipped, 1);
}
TEST(Decisions, ScaleTheLossByRanksAndImages) {
    D d = start(8);
    float scale = 0;
    BeginStep<D>{3, 12}({&d, 1}, {&scale, 1});
    EXPECT_EQ(scale, 8);
    EXPECT_EQ(d.factor, 2);
}

struct Subtract {  // the least optimizer
    int updates = 0;
    void update(const UpdateArgs& a) {
        a.parameters[0] -= a.rate * a.unscale * a.gradients[0];
        a.state[0] = static_cast<float>(a.step);
        ++updates;
    }
};
TEST(Update, IsMadeUnlessTheMeanIsSkipped) {
    D d = start(8);
    Subtract o;
    const ParameterSlice slice{0, 1, 0};
    const Update<Subtract, D> update{&o, &slice, 1};
    std::vector<float> w{10}, state{-1};
    d.updates = 5;
    update(w, std::vector<float>{16}, 8, 0.5f, state, {&d, 1});
    EXPECT_EQ(w[0], 9) << "0.5 * 16 / 8";
    EXPECT_EQ(state[0], 5) << "updates before it";
    EXPECT_EQ(d.updates, 6);
    d.applied = false;
    update(w, std::vector<float>{16}, 8, 0.5f, state, {&d, 1});
    EXPECT_EQ(w[0], 9);
    EXPECT_EQ(d.updates, 6);
    EXPECT_EQ(o.updates, 1);
}

TEST(StepSlots, OnTheHostTellAtOnce) {
    Slots slots(nullptr, start(8));
    EXPECT_TRUE(slots.empty());
    slots.report() = {.loss_sum = 3, .correct = 2};
    BeginStep<D>{1, 1}(slots.decisions(), slots.scale_view(7));
    EXPECT_EQ(slots.scale_of(7), 8);
    EXPECT_EQ(slots.scale_of(9), 8) << "two gradients in flight share a slot";
    EXPECT_EQ(slots.factor(), 8);
    slots.record_outcome(HostQueue{}, {.step_of_epoch = 4, .step = 7, .gradient = 6});
    EXPECT_TRUE(slots.full());
    const ReadStep read = slots.read_outcome(HostQueue{});
    EXPECT_EQ(read.of.step_of_epoch, 4);
    EXPECT_TRUE(read.of.collected());
    EXPECT_TRUE((UnreadStep{.gradient = 0}.collected()));
    EXPECT_FALSE(UnreadStep().collected());
    EXPECT_EQ(read.outcome.report.loss_sum, 3);
    EXPECT_EQ(read.outcome.report.correct, 2);
    EXPECT_EQ(read.outcome.scale_of_step, 8);
    EXPECT_TRUE(read.delivery.complete());
}
TEST(StepSlots, AreRestored) {
    Slots slots(nullptr, start(8));
    D d = start(2);
    d.updates = 9;
    slots.put(HostQueue{}, d, {3, 4});
    EXPECT_EQ(slots.get(HostQueue{}).updates, 9);
    EXPECT_EQ(slots.scale_of(0), 3);
    EXPECT_EQ(slots.get_scales(HostQueue{})[1], 4);
}

}  // namespace
