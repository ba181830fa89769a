#include <gx/sim/fault/seen_by_core.hpp>  // first, so the header is seen to stand alone

#include <chrono>    // hours
#include <optional>  // faults that are over
#include <variant>   // visit

#include <gtest/gtest.h>

#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/sim/fault/faults.hpp>             // LostSwitch

namespace {

using gx::Nanoseconds;
using namespace gx::literals;
using namespace gx::sim;

TEST(SeenByCore, ALostSwitchIsThatOfTheCoreBehindIt) {
    auto spec = ethernet_10g(6);
    spec.fabric = leaf_spine({.machines_per_leaf = 2, .spines = 2});
    const auto seen = [&](Switch s, std::vector<bool> left, Nanoseconds passed) {
        const FaultList f = as_seen_by(core_of(whole(spec), left), spec,
                                       LostSwitch{s, 100_us, 1'000_us, 400_us}, passed, 0);
        return f.empty() ? std::nullopt : std::optional(std::get<LostSwitch>(f.at(0)));
    };
    const std::vector<bool> all(6, true), no_leaf_1{true, true, false, false, true, true};
    const auto later = seen({SwitchKind::spine, 1}, all, 300_us);
    ASSERT_TRUE(later);
    EXPECT_EQ(later->at, 0_us);
    EXPECT_EQ(later->lasts, 800_us);
    EXPECT_EQ(later->unnoticed, 200_us) << "less than it lasts, as it must be";
    EXPECT_FALSE(seen({SwitchKind::leaf, 1}, no_leaf_1, 0_us)) << "with its machines";
    EXPECT_EQ(seen({SwitchKind::leaf, 2}, no_leaf_1, 0_us)->which, (Switch{SwitchKind::leaf, 1}));
    EXPECT_TRUE(seen({SwitchKind::spine, 1}, {true, true, true, true, true, false}, 0_us))
        << "five machines have a leaf of one";
    EXPECT_FALSE(seen({SwitchKind::spine, 1}, all, 1'100_us)) << "it is over";
}

// ---- Faults that come and go, by hand -------------------------------------------------
FaultList later(const Fault& fault, Nanoseconds passed) {
    const auto spec = ethernet_10g(3);
    return as_seen_by(core_of(whole(spec), {true, true, false}), spec, fault, passed);
}
TEST(SeenByCore, BurstsKeepTheirTimes) {
    const StragglerBursts bursts{1, 4, 500_us, 1'000_us, 4'000_us, 3};  // at 0.5, 4.5 and 8.5 ms
    const FaultList within = later(bursts, 1'400_us);
    ASSERT_EQ(within.size(), 2u);
    EXPECT_EQ(std::get<SlowGpu>(within[0]).at, 0_us);
    EXPECT_EQ(std::get<SlowGpu>(within[0]).lasts, 100_us) << "what is left of the first";
    EXPECT_EQ(std::get<StragglerBursts>(within[1]).at, 3'100_us);
    EXPECT_EQ(std::get<StragglerBursts>(within[1]).times, 2);
    const FaultList between = later(bursts, 1'500_us);
    ASSERT_EQ(between.size(), 1u);
    EXPECT_EQ(std::get<StragglerBursts>(between[0]).at, 3'000_us);
    const FaultList in_last = later(bursts, 9'000_us);
    ASSERT_EQ(in_last.size(), 1u);
    EXPECT_EQ(std::get<SlowGpu>(in_last[0]).lasts, 500_us);
    EXPECT_TRUE(later(bursts, 9'500_us).empty());
    const FaultList lasting = later(StragglerBursts{1, 4, 0_us, forever, 0_us, 1}, 100_us);
    ASSERT_EQ(lasting.size(), 1u);
    EXPECT_EQ(std::get<SlowGpu>(lasting[0]).lasts, forever);
}
TEST(SeenByCore, AFlappingLinkKeepsItsTimes) {
    const Wire wire{.machine = 1};
    const FlappingLink flaps{wire, 200_us, 800_us, 0_us, 10'000_us};  // down at 0, 1, 2, ... ms
    const FaultList up = later(flaps, 1'400_us);
    ASSERT_EQ(up.size(), 1u);
    EXPECT_EQ(std::get<FlappingLink>(up[0]).at, 600_us);
    EXPECT_EQ(std::get<FlappingLink>(up[0]).lasts, 8'000_us);
    const FaultList down = later(flaps, 2'050_us);
    ASSERT_EQ(down.size(), 2u);
    EXPECT_EQ(std::get<CutLink>(down[0]).lasts, 150_us);
    EXPECT_EQ(std::get<FlappingLink>(down[1]).at, 950_us);
    const FaultList last = later(flaps, 9'100_us);
    ASSERT_EQ(last.size(), 1u) << "it ends before it goes down again";
    EXPECT_EQ(std::get<CutLink>(last[0]).lasts, 100_us);
    const FaultList stays = later(FlappingLink{wire, forever, 1_us, 0_us, forever}, 100_us);
    ASSERT_EQ(stays.size(), 1u);
    EXPECT_EQ(std::get<CutLink>(stays[0]).lasts, forever);
    EXPECT_TRUE(later(FlappingLink{wire, 50_us, forever, 0_us, forever}, 100_us).empty());
    constexpr gx::Nanoseconds year = std::chrono::hours(24 * 365);
    EXPECT_EQ(later(FlappingLink{wire, 10'000_us, year, 0_us, forever}, 3'000_us).size(), 1u)
        << "no fault begins after more than a year";
}
TEST(SeenByCore, WhatHasNotStruckStrikesAsSoonAsItCan) {
    for (const Fault& fault : {Fault(FlippedBit{0, 1, 100_us}), Fault(NanInPayload{0, 1, 100_us}),
                               Fault(DeadGpu{1, 100_us})}) {
        const FaultList seen = later(fault, 300_us);
        ASSERT_EQ(seen.size(), 1u);
        std::visit(
            [](const auto& f) {
                if constexpr (requires { f.at; }) {
                    EXPECT_EQ(f.at, 0_us);
                }
            },
            seen[0]);
    }
}

}  // namespace
