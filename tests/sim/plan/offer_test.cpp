#include <gx/sim/plan/offer.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::Nanoseconds;
using gx::sim::plan::Job;
using gx::sim::plan::judge;
using gx::sim::plan::Offer;

Offer offer(const char* machine, const char* reducer, int seconds, double dollars) {
    Offer o{.way = {.machine = machine, .machines = 1, .reducer = reducer},
            .step = std::chrono::milliseconds(100),
            .total = std::chrono::seconds(seconds),
            .on_demand = gx::Dollars{dollars}};
    return o;
}
const Offer& of(const std::vector<Offer>& offers, const char* machine, const char* reducer) {
    for (const Offer& o : offers)
        if (o.way.machine == machine && o.way.reducer == reducer) return o;
    throw std::out_of_range("no such offer");
}

// ---- Worked by hand -------------------------------------------------------------------
TEST(Judge, TellsTheFrontierAndWhyTheOthersLose) {
    std::vector<Offer> offers{
        offer("slow", "Ring<fp32>", 100, 1), offer("fast", "Ring<fp32>", 50, 3),
        offer("fast", "Ring<fp16>", 40, 2.4), offer("dear", "Ring<fp16>", 45, 9)};
    offers[1].exposed = std::chrono::milliseconds(30);
    judge(offers, {});
    EXPECT_EQ(offers[0].way.reducer, "Ring<fp16>");  // the fastest comes first
    EXPECT_TRUE(of(offers, "fast", "Ring<fp16>").on_frontier);
    EXPECT_TRUE(of(offers, "slow", "Ring<fp32>").on_frontier);
    EXPECT_EQ(of(offers, "fast", "Ring<fp32>").why,
              "on the same machines Ring<fp16> takes 20.0 % less time: 30.0 ms a step wait for "
              "communication here, 0.0 ms there");
    EXPECT_EQ(of(offers, "dear", "Ring<fp16>").why,
              "1 x fast, Ring<fp16> takes 89 % of the time for 27 % of the dollars");
}
TEST(Judge, PutsWhatBreaksALimitLastAndSaysByHowMuch) {
    std::vector<Offer> offers{offer("a", "r", 100, 1), offer("b", "r", 50, 3),
                              offer("c", "r", 1, 1)};
    offers[2].trouble = "a batch of 9 does not fit";
    judge(offers, Job{.budget = gx::Dollars{2.5}});
    EXPECT_TRUE(offers[0].on_frontier);
    EXPECT_EQ(offers[0].way.machine, "a");
    EXPECT_EQ(of(offers, "b", "r").why, "0.50 dollars over the budget");
    EXPECT_EQ(of(offers, "c", "r").why, "a batch of 9 does not fit");
    judge(offers, Job{.deadline = std::chrono::seconds(60)});
    EXPECT_EQ(of(offers, "a", "r").why, "40 s past the deadline");
    EXPECT_TRUE(of(offers, "b", "r").on_frontier);
}
TEST(Judge, TakesAnUnknownPriceForTheDearest) {
    const auto unpriced = [](const char* machine, int seconds) {
        Offer o = offer(machine, "r", seconds, 0);
        o.on_demand.reset();
        return o;
    };
    std::vector<Offer> offers{offer("a", "r", 100, 1), unpriced("b", 50), unpriced("c", 60),
                              unpriced("d", 200)};
    judge(offers, {});
    EXPECT_TRUE(of(offers, "b", "r").on_frontier) << "the fastest, whatever it costs";
    EXPECT_TRUE(of(offers, "a", "r").on_frontier) << "the only one known to be cheaper";
    EXPECT_EQ(of(offers, "c", "r").why,
              "1 x b, r takes 83 % of the time, and no price of this one is known");
    EXPECT_EQ(of(offers, "d", "r").why,
              "1 x a, r takes 50 % of the time, and no price of this one is known");
    judge(offers, Job{.budget = gx::Dollars{2}});
    EXPECT_EQ(of(offers, "b", "r").why, "no price of it is known, and there is a budget");
    EXPECT_TRUE(of(offers, "a", "r").on_frontier);
}
TEST(Judge, OfNothingIsNothing) {
    std::vector<Offer> none;
    judge(none, {});
    EXPECT_TRUE(none.empty());
}

// ---- What a frontier is, for any offers -----------------------------------------------
RC_GTEST_PROP(Judge, NothingBeatsTheFrontierAndEverythingElseIsBeaten, ()) {
    std::vector<Offer> offers;
    const int n = *rc::gen::inRange(1, 30);
    for (int i = 0; i < n; ++i)
        offers.push_back(offer(i % 2 ? "a" : "b", "r", *rc::gen::inRange(1, 8),
                               *rc::gen::inRange(1, 8)));
    judge(offers, {});
    const auto beats = [](const Offer& x, const Offer& y) {  // no worse in both, better in one
        return x.total <= y.total && x.on_demand <= y.on_demand &&
               (x.total < y.total || x.on_demand < y.on_demand);
    };
    for (const Offer& o : offers) {
        bool beaten = false, equal_on_frontier = false;
        for (const Offer& other : offers) {
            beaten = beaten || beats(other, o);
            equal_on_frontier = equal_on_frontier ||
                                (other.on_frontier && other.total == o.total &&
                                 other.on_demand == o.on_demand);
        }
        RC_ASSERT((o.on_frontier ? !beaten : beaten || equal_on_frontier));
        RC_ASSERT((o.on_frontier == o.why.empty()));
    }
}

}  // namespace
