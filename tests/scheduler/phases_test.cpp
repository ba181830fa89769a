#include <gx/scheduler/phases.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::Phase;
using gx::Phases;

// ---- A case worked by hand, as a constant ---------------------------------------------------
constexpr Phases phases{{0, 128, 24}, {10, 64, 28}, {25, 32, 32}};
static_assert(phases.all().size() == 3);
static_assert(phases.at(0) == Phase{0, 128, 24} && phases.at(9) == Phase{0, 128, 24});
static_assert(phases.at(10) == Phase{10, 64, 28} && phases.at(24) == Phase{10, 64, 28});
static_assert(phases.at(25) == Phase{25, 32, 32} && phases.at(1'000) == Phase{25, 32, 32});

// ---- A property -----------------------------------------------------------------------------
RC_GTEST_PROP(Phases, AnswersTheLastPhaseThatHasBegun, ()) {
    std::vector<Phase> list;
    const int count = *rc::gen::inRange(1, 17);
    for (int i = 0, first = 0; i < count; ++i, first += *rc::gen::inRange(1, 20))
        list.push_back({first, *rc::gen::inRange(1, 512), *rc::gen::inRange(1, 512)});
    const Phases all{std::span<const Phase>(list)};
    const int epoch = *rc::gen::inRange(0, 200);
    Phase expected{};
    for (const Phase& p : list)
        if (p.first_epoch <= epoch) expected = p;
    RC_ASSERT(all.at(epoch) == expected);
}

// ---- Bad lists ------------------------------------------------------------------------------
TEST(PhasesDeathTest, StopOnABadList) {
    EXPECT_DEATH(Phases(std::span<const Phase>{}), "1 to 16 phases");
    EXPECT_DEATH((Phases{{1, 8, 8}}), "begins at epoch 0");
    EXPECT_DEATH((Phases{{0, 8, 8}, {0, 8, 8}}), "later than the one before");
    EXPECT_DEATH((Phases{{0, 8, 8}, {5, 8, 8}, {4, 8, 8}}), "later than the one before");
    EXPECT_DEATH((Phases{{0, 0, 8}}), "batch of at least 1");
    EXPECT_DEATH((Phases{{0, 8, 0}}), "at least one pixel");
    EXPECT_DEATH((void)phases.at(-1), "epochs count from 0");
}

}  // namespace
