#include <tools/plan/candidate.hpp>

#include <algorithm>  // any_of

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::Nanoseconds;
using gx::tools::plan::Candidate;
using gx::tools::plan::Job;
using gx::tools::plan::pareto_front;

Candidate candidate(const char* machine, const char* reducer, int seconds, double dollars) {
    Candidate o{.choice = {.machine = machine, .machines = 1, .reducer = reducer},
                .step = std::chrono::milliseconds(100),
                .total = std::chrono::seconds(seconds),
                .on_demand = gx::Dollars{dollars}};
    return o;
}
const Candidate& of(const std::vector<Candidate>& candidates, const char* machine,
                    const char* reducer) {
    for (const Candidate& o : candidates)
        if (o.choice.machine == machine && o.choice.reducer == reducer) return o;
    throw std::out_of_range("no such candidate");
}

TEST(Job, NamesTheLengthOfItsSequences) {
    EXPECT_EQ((Job{.model = "BERT-large", .sequence_length = 512}).network(),
              "BERT-large on sequences of 512 tokens");
    EXPECT_EQ(Job{.model = "ResNet-50"}.network(), "ResNet-50");
}

TEST(Hours, AndPricesOfShortJobsAreNotNothing) {
    using gx::tools::plan::hours, gx::tools::plan::price;
    EXPECT_EQ(hours(std::chrono::microseconds(31'300)), "31.3 ms");
    EXPECT_EQ(hours(std::chrono::milliseconds(7'254)), "7.25 s");
    EXPECT_EQ(hours(std::chrono::milliseconds(90'400)), "90 s");
    EXPECT_EQ(hours(std::chrono::seconds(1'638)), "27.3 min");
    EXPECT_EQ(hours(std::chrono::seconds(10'188)), "2.83 h");
    EXPECT_EQ(price({12.3}), "12.30");
    EXPECT_EQ(price({0.01}), "0.01");
    EXPECT_EQ(price({0}), "0.00");
    EXPECT_EQ(price({0.00237}), "0.0024");
}

// ---- Worked by hand -------------------------------------------------------------------
TEST(ParetoFront, MarksTheFrontAndWhyTheOthersAreDominated) {
    std::vector<Candidate> candidates{
        candidate("slow", "Ring<fp32>", 100, 1), candidate("fast", "Ring<fp32>", 50, 3),
        candidate("fast", "Ring<fp16>", 40, 2.4), candidate("dear", "Ring<fp16>", 45, 9)};
    candidates[1].exposed = std::chrono::milliseconds(30);
    pareto_front(candidates, {});
    EXPECT_EQ(candidates[0].choice.reducer, "Ring<fp16>");  // the fastest comes first
    EXPECT_TRUE(of(candidates, "fast", "Ring<fp16>").on_front);
    EXPECT_TRUE(of(candidates, "slow", "Ring<fp32>").on_front);
    EXPECT_EQ(of(candidates, "fast", "Ring<fp32>").why,
              "on the same machines Ring<fp16> takes 20.0 % less time: 30.0 ms a step go to "
              "communication here, 0.0 ms there");
    EXPECT_EQ(of(candidates, "dear", "Ring<fp16>").why,
              "1 x fast, Ring<fp16> takes 89 % of the time for 27 % of the dollars");
    candidates = {candidate("a", "Tree", 20, 2), candidate("a", "Tree", 10, 1)};
    candidates[1].choice.bucket = {25'000'000};
    pareto_front(candidates, {});
    EXPECT_TRUE(candidates[1].why.starts_with("on the same machines Tree, buckets of 25 MB takes "))
        << "not of a name with itself: " << candidates[1].why;
}
TEST(ParetoFront, PutsWhatBreaksALimitLastAndSaysByHowMuch) {
    std::vector<Candidate> candidates{candidate("a", "r", 100, 1), candidate("b", "r", 50, 3),
                                      candidate("c", "r", 1, 1)};
    candidates[2].infeasible = "a batch of 9 does not fit";
    pareto_front(candidates, Job{.budget = gx::Dollars{2.5}});
    EXPECT_TRUE(candidates[0].on_front);
    EXPECT_EQ(candidates[0].choice.machine, "a");
    EXPECT_EQ(of(candidates, "b", "r").why, "0.50 dollars over the budget");
    EXPECT_EQ(of(candidates, "c", "r").why, "a batch of 9 does not fit");
    pareto_front(candidates, Job{.deadline = std::chrono::seconds(60)});
    EXPECT_EQ(of(candidates, "a", "r").why, "40 s past the deadline");
    EXPECT_TRUE(of(candidates, "b", "r").on_front);
}
TEST(ParetoFront, NamesTheNearestWhereNoneIsAllowed) {
    std::vector<Candidate> candidates{candidate("large", "r", 1, 1), candidate("quick", "r", 50, 9),
                                      candidate("cheap", "r", 100, 3),
                                      candidate("between", "r", 60, 5)};
    candidates[0].infeasible = "a batch of 9 does not fit";
    const auto names = [&](const Job& job) {
        pareto_front(candidates, job);
        std::string all;
        for (const Candidate* o : nearest(candidates)) all += o->choice.machine + " ";
        return all;
    };
    EXPECT_EQ(names({.budget = gx::Dollars{2}}), "quick cheap ");
    EXPECT_EQ(candidates.back().choice.machine, "large") << "what cannot run comes last";
    EXPECT_EQ(names({.budget = gx::Dollars{4}}), "") << "one is allowed";
    candidates[1].infeasible = candidates[2].infeasible = "no";  // quick and between
    EXPECT_EQ(names({.budget = gx::Dollars{2}}), "cheap ");
    for (Candidate& o : candidates) o.on_demand.reset();
    EXPECT_EQ(names({.deadline = gx::Nanoseconds(1)}), "cheap ")
        << "the fastest; no price is known";
    candidates[0].infeasible = candidates[3].infeasible = "no";
    EXPECT_EQ(names({.budget = gx::Dollars{2}}), "") << "none runs";

    candidates = {candidate("fresh", "r", 1000, 10), candidate("stale", "r", 995, 9.95),
                  candidate("far", "r", 2000, 8), candidate("gains", "r", 1900, 7.8)};
    candidates[1].choice.staleness = candidates[3].choice.staleness = 1;
    EXPECT_EQ(names({.budget = gx::Dollars{2}}), "fresh gains ")
        << "stale gradients that gain less than 1 % are named no more than on the front";
}
TEST(ParetoFront, TakesAnUnknownPriceForTheDearest) {
    const auto unpriced = [](const char* machine, int seconds) {
        Candidate o = candidate(machine, "r", seconds, 0);
        o.on_demand.reset();
        return o;
    };
    std::vector<Candidate> candidates{candidate("a", "r", 100, 1), unpriced("b", 50),
                                      unpriced("c", 60), unpriced("d", 200)};
    pareto_front(candidates, {});
    EXPECT_TRUE(of(candidates, "b", "r").on_front) << "the fastest, whatever it costs";
    EXPECT_TRUE(of(candidates, "a", "r").on_front) << "the only one known to be cheaper";
    EXPECT_EQ(of(candidates, "c", "r").why,
              "1 x b, r takes 83 % of the time, and no price of this one is known");
    EXPECT_EQ(of(candidates, "d", "r").why,
              "1 x a, r takes 50 % of the time, and no price of this one is known");
    pareto_front(candidates, Job{.budget = gx::Dollars{2}});
    EXPECT_EQ(of(candidates, "b", "r").why, "no price of it is known, and there is a budget");
    EXPECT_TRUE(of(candidates, "a", "r").on_front);
}
TEST(ParetoFront, HasAStaleCandidateOnlyWhereItGainsMoreThanOnePercent) {
    const auto stale = [](const char* machine, int seconds, double dollars) {
        Candidate o = candidate(machine, "stale", seconds, dollars);
        o.choice.staleness = 1;
        return o;
    };
    std::vector<Candidate> candidates{candidate("a", "fresh", 1000, 10), stale("a", 991, 9.91),
                                      candidate("b", "fresh", 1005, 10.02)};
    pareto_front(candidates, {});
    EXPECT_EQ(of(candidates, "a", "stale").why,
              "stale gradients gain less than 1 %: on the same machines fresh takes 100.9 % of the "
              "time for 100.9 % of the dollars");
    EXPECT_TRUE(of(candidates, "a", "fresh").on_front);
    EXPECT_EQ(of(candidates, "b", "fresh").why,
              "1 x a, fresh takes 100 % of the time for 100 % of the dollars");

    candidates = {candidate("a", "fresh", 1000, 10), stale("a", 989, 9.89)};
    pareto_front(candidates, {});
    EXPECT_TRUE(of(candidates, "a", "stale").on_front) << "more than 1 % faster";

    candidates = {candidate("a", "fresh", 1000, 10), stale("b", 999, 9.8),
                  candidate("b", "fresh", 1200, 9.9)};
    pareto_front(candidates, {});
    EXPECT_TRUE(of(candidates, "b", "stale").on_front) << "more than 1 % cheaper than what is fast";

    candidates = {candidate("a", "fresh", 1005, 5), stale("b", 1000, 10)};
    pareto_front(candidates, {});
    EXPECT_EQ(of(candidates, "b", "stale").why,
              "stale gradients gain less than 1 %: 1 x a, fresh takes 100.5 % of the time for "
              "50.0 % of the dollars");
    for (Candidate& o : candidates) o.on_demand.reset();
    pareto_front(candidates, {});
    EXPECT_EQ(of(candidates, "b", "stale").why,
              "stale gradients gain less than 1 %: 1 x a, fresh takes 100.5 % of the time");

    candidates = {candidate("a", "fresh", 1000, 10), stale("a", 995, 9.95)};
    candidates[0].infeasible = "does not fit";
    pareto_front(candidates, {});
    EXPECT_TRUE(of(candidates, "a", "stale").on_front) << "nothing fresh runs";
}
TEST(ParetoFront, OfNothingIsNothing) {
    std::vector<Candidate> none;
    pareto_front(none, {});
    EXPECT_TRUE(none.empty());
}

// ---- What a frontier is, for any candidates -----------------------------------------------
RC_GTEST_PROP(ParetoFront, NothingDominatesTheFrontAndEverythingElseIsDominated, ()) {
    std::vector<Candidate> candidates;
    const int n = *rc::gen::inRange(1, 30);
    for (int i = 0; i < n; ++i)
        candidates.push_back(
            candidate(i % 2 ? "a" : "b", "r", *rc::gen::inRange(1, 8), *rc::gen::inRange(1, 8)));
    pareto_front(candidates, {});
    // no worse in both, better in one
    const auto beats = [](const Candidate& x, const Candidate& y) {
        return x.total <= y.total && x.on_demand <= y.on_demand &&
               (x.total < y.total || x.on_demand < y.on_demand);
    };
    for (const Candidate& o : candidates) {
        bool beaten = false, equal_on_front = false;
        for (const Candidate& other : candidates) {
            beaten = beaten || beats(other, o);
            equal_on_front = equal_on_front || (other.on_front && other.total == o.total &&
                                                other.on_demand == o.on_demand);
        }
        RC_ASSERT((o.on_front ? !beaten : beaten || equal_on_front));
        RC_ASSERT((o.on_front == o.why.empty()));
    }
}

RC_GTEST_PROP(ParetoFront, StaleCandidatesAreOnItWhereNoFresherOneIsNear, ()) {
    std::vector<Candidate> candidates;
    const int n = *rc::gen::inRange(1, 30);
    for (int i = 0; i < n; ++i) {
        candidates.push_back(candidate(i % 2 ? "a" : "b", "r", *rc::gen::inRange(190, 210),
                                       *rc::gen::inRange(190, 210)));
        candidates.back().choice.staleness = *rc::gen::inRange(0, 2);
    }
    pareto_front(candidates, {});
    const auto stands_for = [](const Candidate& f, const Candidate& o) {
        return f.choice.staleness < o.choice.staleness &&
               gx::seconds(f.total) <= 1.01 * gx::seconds(o.total) &&
               f.on_demand->count <= 1.01 * o.on_demand->count;
    };
    const auto beats = [](const Candidate& x, const Candidate& o) {
        return x.total <= o.total && x.on_demand <= o.on_demand &&
               (x.total < o.total || x.on_demand < o.on_demand);
    };
    const auto left_out = [&](const Candidate& o) {
        return std::ranges::any_of(candidates, [&](const auto& f) { return stands_for(f, o); });
    };
    for (const Candidate& o : candidates) {
        const bool beaten = std::ranges::any_of(
            candidates, [&](const auto& x) { return !left_out(x) && beats(x, o); });
        const bool equal_on_front = std::ranges::any_of(candidates, [&](const auto& x) {
            return x.on_front && x.total == o.total && x.on_demand == o.on_demand;
        });
        RC_ASSERT((o.on_front ? !left_out(o) && !beaten : left_out(o) || beaten || equal_on_front));
        RC_ASSERT((o.on_front == o.why.empty()));
    }
}

}  // namespace
