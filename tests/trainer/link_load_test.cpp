#include <gx/trainer/link_load.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::LinkRates;
using gx::Nanoseconds;

/// Link 0 has no name; link 1 carries 100, then 50, then nothing, of 200.
const LinkRates some{.names = {"", "NIC <out>"},
                     .capacities = {{1}, {200}},
                     .changes = {{1, Nanoseconds(100), {100}},
                                 {0, Nanoseconds(150), {1}},
                                 {1, Nanoseconds(200), {50}},
                                 {1, Nanoseconds(400), {0}}}};

// ---- By hand --------------------------------------------------------------------------
TEST(LinkLoad, IsTheMeanShareOfTheCapacity) {
    EXPECT_DOUBLE_EQ(gx::mean_load(some, 1, Nanoseconds(100), Nanoseconds(200)), 0.5);
    EXPECT_DOUBLE_EQ(gx::mean_load(some, 1, Nanoseconds(0), Nanoseconds(500)),
                     (100 * 0.5 + 200 * 0.25) / 500);
    EXPECT_DOUBLE_EQ(gx::mean_load(some, 1, Nanoseconds(300), Nanoseconds(350)), 0.25);
    EXPECT_EQ(gx::mean_load(some, 1, Nanoseconds(300), Nanoseconds(300)), 0);
}
TEST(LinkLoad, AStripIsOfTheFirstLinkWithAName) {
    const auto svg = gx::link_strip(some, Nanoseconds(0), Nanoseconds(500), Nanoseconds(100),
                                    Nanoseconds(500), 100, 600);
    EXPECT_NE(svg.find("NIC &lt;out&gt;: 25 % of 0.00 GB/s on the mean of whole steps"),
              std::string::npos)
        << svg;
    EXPECT_NE(svg.find("200.00,33.00 300.00,33.00 300.00,40.50 500.00,40.50"), std::string::npos)
        << svg;
}
TEST(LinkLoad, OfNothing) {
    const Nanoseconds none(0), five(5);
    EXPECT_EQ(gx::link_strip({}, none, five, none, five, 100, 600), "");
    EXPECT_EQ(gx::link_strip(some, five, five, five, five, 100, 600), "");
}

// ---- Stretches cover the time, once -----------------------------------------------------
RC_GTEST_PROP(LinkLoad, StretchesHaveNeitherGapsNorOverlaps, (std::vector<std::uint8_t> gaps)) {
    LinkRates rates{.names = {"a"}, .capacities = {{9}}, .changes = {}};
    std::int64_t at = 0;
    for (const auto gap : gaps) rates.changes.push_back({0, Nanoseconds(at += gap), {double(gap)}});
    const Nanoseconds begin(*rc::gen::inRange(0, 400)),
        end = begin + Nanoseconds(*rc::gen::inRange(1, 400));
    const auto found = gx::link_stretches(rates, 0, begin, end);
    Nanoseconds last = begin;
    for (const auto& s : found) {
        RC_ASSERT(s.begin == last);
        RC_ASSERT(s.begin < s.end);
        last = s.end;
        double rate = 0;  // of the last change that is not later
        for (const auto& c : rates.changes)
            if (c.at <= s.begin) rate = c.rate.count;
        RC_ASSERT(s.rate.count == rate);
    }
    RC_ASSERT(last == end);
}

}  // namespace
