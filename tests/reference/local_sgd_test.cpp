#include <gx/reference/local_sgd.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include <gx/core/rng.hpp>
#include <gx/reducer/divide.hpp>
#include <gx/reference/delayed_sgd.hpp>
#include <gx/reference/quadratic.hpp>
#include <gx/reference/ring.hpp>

namespace {

using gx::reference::local_sgd;
using gx::reference::LocalSgdOptions;
using gx::reference::Momenta;
using gx::reference::Rows;
using Floats = std::vector<float>;

Floats halves(const Rows& rows) {  // of two rows
    Floats mean(rows[0].size());
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] = (rows[0][i] + rows[1][i]) / 2;
    return mean;
}
/// Two replicas of one parameter from 8 on (w - c)^2 / 2, c = 0 on rank 0 and 16 on rank 1.
Rows descend(std::uint64_t updates, const LocalSgdOptions& o, float rate = 0.5f) {
    const auto gradient = [](int rank, std::uint64_t, std::span<const float> w) {
        return Floats{w[0] - 16.0f * float(rank)};
    };
    return local_sgd({8}, 2, updates, o, gradient, [=](auto) { return rate; }, halves);
}

// ---- Cases worked by hand -------------------------------------------------------------
TEST(LocalSgd, ReplicasDriftApartUntilTheirMean) {
    EXPECT_EQ(descend(1, {.period = 3}), (Rows{{4}, {12}}));
    EXPECT_EQ(descend(2, {.period = 3}), (Rows{{2}, {14}}));
    EXPECT_EQ(descend(3, {.period = 3}), (Rows{{8}, {8}}));
    EXPECT_EQ(descend(4, {.period = 3}), (Rows{{4}, {12}}));
}
TEST(LocalSgd, AMeanEndsTheEpochAndThePeriodBeginsAnew) {
    const LocalSgdOptions o{.period = 3, .last = [](std::uint64_t u) { return u == 1; }};
    EXPECT_EQ(descend(2, o), (Rows{{8}, {8}}));
    EXPECT_EQ(descend(4, o), (Rows{{2}, {14}}));
    EXPECT_EQ(descend(5, o), (Rows{{8}, {8}}));
}
TEST(LocalSgd, MomentaAreKeptAveragedOrReset) {
    // one update: v = 8 and -8, w = 4 and 12; then the mean, 8; then g = 8 and -8 again
    const auto at = [](Momenta m) {
        return descend(2,
                       {.period = 1, .momentum = 0.5f, .at_mean = m, .last = [](std::uint64_t u) {
                            return u == 0;
                        }});
    };
    const auto before_the_second_mean = [](Momenta m) {
        Rows seen;
        const auto gradient = [](int rank, std::uint64_t, std::span<const float> w) {
            return Floats{w[0] - 16.0f * float(rank)};
        };
        (void)local_sgd(
            {8}, 2, 2, {.momentum = 0.5f, .at_mean = m}, gradient, [](auto) { return 0.5f; },
            [&](const Rows& rows) {
                seen = rows;
                return halves(rows);
            });
        return seen;
    };
    EXPECT_EQ(at(Momenta::kept), (Rows{{8}, {8}}));
    EXPECT_EQ(before_the_second_mean(Momenta::kept), (Rows{{2}, {14}})) << "v = 12, -12";
    EXPECT_EQ(before_the_second_mean(Momenta::reset), (Rows{{4}, {12}})) << "v = 8, -8";
    EXPECT_EQ(before_the_second_mean(Momenta::averaged), (Rows{{8}, {-8}}))
        << "the last mean is of the momenta: v = 8, -8";
}

// ---- One update between means is synchronous SGD, within a bound of the roundings -----------
//
// Exactly, mean(w - r g_i) = w - r mean(g_i). For g_i = a (w - c_i) in one dimension, both runs map
// w to (1 - r a) w + r a mean(c), so with |1 - r a| <= 1 no error grows, and the difference is at
// most the sum of all roundings of both runs. In a step of either, with u = 2^-24, values at most
// W in magnitude and G = a (W + max |c|):
//
//     gradient: a subtraction and a product                    2 u G
//     a mean of n values in any order, scaled by exact 2^-h and then rounded factors: n + 2
//     roundings                                                (n + 2) u max(W, G)
//     r * g and w - r g                                        u r G + u (W + r G)
//
// all of it again times 1 + 1e-5 for products of these.
RC_GTEST_PROP(LocalSgd, OfPeriodOneIsSynchronousWithinItsRoundings, (std::uint64_t seed)) {
    const gx::Rng rng(seed, "local_sgd_test");
    const int n = *rc::gen::inRange(1, 9);
    const std::uint64_t updates = 200;
    const float a = float(rng.uniform(0)) + 0.1f, rate = float(rng.uniform(1)) / a;
    Floats centres;
    double largest = 0;
    for (int r = 0; r < n; ++r) {
        centres.push_back(float(rng.uniform(std::uint64_t(2 + r))) * 20 - 10);
        largest = std::max(largest, std::abs(double(centres.back())));
    }
    double reached = 8;
    const auto gradient = [&](int rank, std::uint64_t, std::span<const float> w) {
        reached = std::max(reached, std::abs(double(w[0])));
        return Floats{a * (w[0] - centres[std::size_t(rank)])};
    };
    const auto order = gx::reference::natural_order(n);
    const auto mean = [&](const Rows& rows) {
        return gx::reference::ring_mean<gx::fp32, gx::DivideSplit>(rows, order);
    };
    const auto local = local_sgd({8}, n, updates, {}, gradient, [=](auto) { return rate; }, mean);
    const auto synchronous = gx::reference::delayed_sgd(
        {8}, updates, {},
        [&](std::uint64_t u, std::span<const float> w) {
            Rows g;
            for (int r = 0; r < n; ++r) g.push_back(gradient(r, u, w));
            return mean(g);
        },
        [=](auto) { return rate; });
    const double u = 0x1p-24, W = reached + 1, G = double(a) * (W + largest), r = double(rate);
    const double step = r * 2 * u * G + (n + 2) * u * std::max(W, r * G) + 2 * u * r * G + u * W;
    const double bound = 2 * double(updates) * step * (1 + 1e-5);
    RC_ASSERT(std::abs(double(local[0][0]) - double(synchronous.back()[0])) <= bound);
    RC_ASSERT(bound < 0.05);
    // With a longer period the replicas are apart after the first update.
    if (n > 1) {
        const auto at_first =
            local_sgd({8}, n, 1, {.period = 2}, gradient, [=](auto) { return rate; }, mean);
        RC_ASSERT(std::abs(double(at_first[0][0]) - double(synchronous[1][0])) > 0 ||
                  std::abs(double(at_first[1][0]) - double(synchronous[1][0])) > 0);
    }
}

}  // namespace
