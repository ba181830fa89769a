#include <gx/trainer/option_list.hpp>

#include <array>
#include <functional>

#include <gtest/gtest.h>

#include <gx/optimizer/sgd.hpp>               // Sgd::Options
#include <gx/scheduler/piecewise_linear.hpp>  // a list of points
#include <gx/scheduler/step_decay.hpp>        // an array of milestones
#include <gx/scheduler/warmup.hpp>            // options within options

namespace {

using gx::Checkpoint;
using List = std::vector<Checkpoint::Option>;

template <class T>
List listed(const T& options, const std::string& name = "o") {
    List out;
    gx::detail::trainer::add_options(out, name, options);
    return out;
}

struct Nothing {};
enum class Kind { plain, other };
struct Odd {
    Kind kind = Kind::other;
    bool flag = true;
    std::uint64_t large = ~std::uint64_t{0};
    std::string text = "a \"b\"";
    std::vector<Nothing> empty{};
    std::function<void()> law{};
    Nothing nothing{};
};

TEST(OptionList, NumbersAreTheShortestThatReadBackEqual) {
    EXPECT_EQ(listed(0.1f), (List{{"o", "0.1"}}));
    EXPECT_EQ(listed(0.1), (List{{"o", "0.1"}}));
    EXPECT_EQ(listed(double{0.1f}), (List{{"o", "0.10000000149011612"}}));
    EXPECT_EQ(listed(-3), (List{{"o", "-3"}}));
}
TEST(OptionList, MembersAndElementsHaveTheirPath) {
    EXPECT_EQ(listed(gx::Sgd::Options{.momentum = 0.8f}, "optimizer"),
              (List{{"optimizer.momentum", "0.8"},
                    {"optimizer.weight_decay", "0.0001"},
                    {"optimizer.nesterov", "0"},
                    {"optimizer.rate_in_velocity", "0"},
                    {"optimizer.decay_batch_norm", "0"},
                    {"optimizer.decay_bias", "0"}}));
    const List nested = listed(gx::Warmup<gx::StepDecay>::Options{
        .climb_steps = 6, .next = {.peak_rate = 0.25f, .milestones = {7, 9}}});
    ASSERT_EQ(nested.size(), 3u + 8);
    EXPECT_EQ(nested[0], (Checkpoint::Option{"o.climb_steps", "6"}));
    EXPECT_EQ(nested[1], (Checkpoint::Option{"o.next.peak_rate", "0.25"}));
    EXPECT_EQ(nested[4], (Checkpoint::Option{"o.next.milestones.1", "9"}));
    EXPECT_EQ(listed(gx::PiecewiseLinear::Options{.points = {{0, 0.1f}, {2.5, 0}}}),
              (List{{"o.points.0.epoch", "0"},
                    {"o.points.0.rate", "0.1"},
                    {"o.points.1.epoch", "2.5"},
                    {"o.points.1.rate", "0"},
                    {"o.steps_per_epoch", "0"}}));
}
TEST(OptionList, WhatCannotBeComparedIsLeftOut) {
    EXPECT_EQ(listed(Nothing{}), List{});
    EXPECT_EQ(listed(Odd{}), (List{{"o.kind", "1"},
                                   {"o.flag", "1"},
                                   {"o.large", "18446744073709551615"},
                                   {"o.text", "a \"b\""}}));
}

}  // namespace
