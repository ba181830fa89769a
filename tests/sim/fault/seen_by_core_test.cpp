#include <gx/sim/fault/seen_by_core.hpp>  // first, so the header is seen to stand alone

#include <optional>  // faults that are over

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
        const auto f = as_seen_by(core_of(whole(spec), left), spec,
                                  LostSwitch{s, 100_us, 1'000_us, 400_us}, passed, 0);
        return f ? std::optional(std::get<LostSwitch>(*f)) : std::nullopt;
    };
    const std::vector<bool> all(6, true), no_leaf_1{true, true, false, false, true, true};
    const auto later = seen({SwitchKind::spine, 1}, all, 300_us);
    ASSERT_TRUE(later);
    EXPECT_EQ(later->at, 0_us);
    EXPECT_EQ(later->lasts, 800_us);
    EXPECT_EQ(later->unnoticed, 200_us) << "less than it lasts, as it must be";
    EXPECT_FALSE(seen({SwitchKind::leaf, 1}, no_leaf_1, 0_us)) << "with its machines";
    EXPECT_EQ(seen({SwitchKind::leaf, 2}, no_leaf_1, 0_us)->which, (Switch{SwitchKind::leaf, 1}));
    EXPECT_FALSE(seen({SwitchKind::spine, 1}, {true, true, true, true, true, false}, 0_us))
        << "five machines are on a star";
    EXPECT_FALSE(seen({SwitchKind::spine, 1}, all, 1'100_us)) << "it is over";
}

}  // namespace
