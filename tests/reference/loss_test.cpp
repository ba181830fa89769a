#include <gx/reference/loss.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>  // infinity

#include <reference/loss_fixture.hpp>  // what PyTorch gave
#include <reference/tensor.hpp>        // Tensor

namespace {

using gx::reference::cross_entropy;
using gx::reference::testing::small_integers;
using gx::reference::testing::Tensor;

// ---- Cases worked by hand. 1e-15 is 4 roundings at magnitude 2 ---------------------------
TEST(CrossEntropy, OfEqualLogitsIsLogC) {
    for (const int classes : {2, 3, 10, 1000}) {
        const Tensor logits(1, {classes, 1, 1}, std::vector<double>(std::size_t(classes), 4.0));
        EXPECT_NEAR(cross_entropy(logits.read(), 0, 1, 0), std::log(classes), 1e-12);
        EXPECT_NEAR(cross_entropy(logits.read(), 0, 0, 0.1), std::log(classes), 1e-12);
    }
}

TEST(CrossEntropy, OfOddsThreeToOne) {
    const Tensor logits(1, {2, 1, 1}, {std::log(3.0), 0});
    EXPECT_NEAR(cross_entropy(logits.read(), 0, 0, 0), std::log(4.0 / 3.0), 1e-15);
    EXPECT_NEAR(cross_entropy(logits.read(), 0, 1, 0), std::log(4.0), 1e-15);
    // smoothing 0.2 over two classes: 0.9 of the label's, 0.1 of the other's
    EXPECT_NEAR(cross_entropy(logits.read(), 0, 0, 0.2),
                0.9 * std::log(4.0 / 3.0) + 0.1 * std::log(4.0), 1e-15);
}

TEST(CrossEntropy, GradientIsSoftmaxMinusTarget) {
    const Tensor logits(1, {2, 1, 1}, {std::log(3.0), 0});
    Tensor d(1, {2, 1, 1});
    cross_entropy_backward(logits.read(), 0, 1, 0.2, d.write());
    EXPECT_NEAR(d.values[0], 0.75 - 0.1, 1e-15);
    EXPECT_NEAR(d.values[1], 0.25 - 0.9, 1e-15);
}

TEST(CrossEntropy, StaysFiniteForLargeLogits) {
    const Tensor logits(1, {3, 1, 1}, {5000, -5000, 0});
    EXPECT_EQ(cross_entropy(logits.read(), 0, 0, 0), 0);
    EXPECT_EQ(cross_entropy(logits.read(), 0, 1, 0), 10000);
}

TEST(CrossEntropy, OfAnInfiniteLogitIsNotANumber) {
    const Tensor logits(1, {2, 1, 1}, {std::numeric_limits<double>::infinity(), 0});
    EXPECT_TRUE(std::isnan(cross_entropy(logits.read(), 0, 0, 0)));
}

TEST(Predicted, TakesTheLowestOfEqualClasses) {
    const Tensor logits(2, {3, 1, 1}, {1, 5, 5, 2, 2, 2});
    EXPECT_EQ(gx::reference::predicted(logits.read(), 0), 1);
    EXPECT_EQ(gx::reference::predicted(logits.read(), 1), 0);
}

TEST(PlaceOf, CountsTheClassesInFront) {
    const Tensor logits(2, {4, 1, 1}, {1, 5, 5, -2, 3, 3, 3, 3});
    const auto places = [&](int n) {
        std::vector<int> out;
        for (int k = 0; k < 4; ++k) out.push_back(gx::reference::place_of(logits.read(), n, k));
        return out;
    };
    EXPECT_EQ(places(0), (std::vector{2, 0, 1, 3}));
    EXPECT_EQ(places(1), (std::vector{0, 1, 2, 3}));
}

// ---- PyTorch -------------------------------------------------------------------------------
namespace fixture = gx::reference::testing::loss;
Tensor logits_of(const double (&values)[fixture::images * fixture::classes]) {
    return {fixture::images, {fixture::classes, 1, 1}, {std::begin(values), std::end(values)}};
}

TEST(LossAgainstTorch, FindsTheSameAmongFive) {
    const Tensor distinct = logits_of(fixture::distinct), tied = logits_of(fixture::tied);
    for (int n = 0; n < fixture::images; ++n) {
        const int label = fixture::first[n];
        EXPECT_EQ(gx::reference::place_of(distinct.read(), n, label) < 5, fixture::top5[n]) << n;
        EXPECT_EQ(gx::reference::place_of(tied.read(), n, label) < 5, fixture::tied_top5[n]) << n;
    }
}

// Sums of 9 terms below 2^5, of numbers that 2 roundings made: 2^-53 * 2^5 * 16 < 1e-13.
constexpr double same_mathematics = 1e-13;
template <std::size_t N, std::size_t M>
void expect_torch(double smoothing, bool mixed, const double (&losses)[N],
                  const double (&gradient)[M]) {
    const Tensor logits = logits_of(fixture::distinct);
    Tensor d(fixture::images, {fixture::classes, 1, 1});
    for (int n = 0; n < fixture::images; ++n) {
        gx::reference::Labels labels(fixture::first[n]);
        if (mixed) labels.second = {fixture::second[n], float(1 - fixture::weight[n])};
        EXPECT_NEAR(cross_entropy(logits.read(), n, labels, smoothing), losses[n], same_mathematics)
            << n;
        cross_entropy_backward(logits.read(), n, labels, smoothing, d.write());
    }
    for (std::size_t i = 0; i < M; ++i)
        EXPECT_NEAR(d.values[i], gradient[i], same_mathematics) << i;
}
TEST(LossAgainstTorch, OfSmoothedAndMixedLabels) {
    expect_torch(0, false, fixture::plain_loss, fixture::plain_gradient);
    expect_torch(0, true, fixture::plain_mixed_loss, fixture::plain_mixed_gradient);
    expect_torch(0.125, false, fixture::smoothed_loss, fixture::smoothed_gradient);
    expect_torch(0.125, true, fixture::smoothed_mixed_loss, fixture::smoothed_mixed_gradient);
}
TEST(LossAgainstTorch, OfASecondLabelWithoutAShareHasTheBitsOfOne) {
    const Tensor logits = logits_of(fixture::distinct);
    for (int n = 0; n < fixture::images; ++n)
        for (const double smoothing : {0.0, 0.1}) {
            const int label = fixture::first[n], other = fixture::second[n];
            Tensor one(fixture::images, {fixture::classes, 1, 1}), both = one;
            cross_entropy_backward(logits.read(), n, label, smoothing, one.write());
            cross_entropy_backward(logits.read(), n, {label, {other, 0}}, smoothing, both.write());
            EXPECT_EQ(one.values, both.values);
            EXPECT_EQ(cross_entropy(logits.read(), n, label, smoothing),
                      cross_entropy(logits.read(), n, {other, {label, 1}}, smoothing));
        }
}

// ---- Properties -----------------------------------------------------------------------
// Up to 8 logits within 9 of 0: fewer than 2^5 roundings below 2^5, each 2^-53 of it: 2^-43.
RC_GTEST_PROP(CrossEntropy, ShiftsDoNotMatterAndGradientsAddUpToNothing, (std::uint64_t seed)) {
    const int classes = *rc::gen::inRange(2, 9), label = *rc::gen::inRange(0, classes);
    const double smoothing = *rc::gen::inRange(0, 8) / 8.0;
    Tensor a(1, {classes, 1, 1}), d = a;
    a.values = small_integers(a.values.size(), seed);
    Tensor b = a;
    for (double& v : b.values) v += 3;
    const double loss = cross_entropy(a.read(), 0, label, smoothing);
    RC_ASSERT(loss >= 0);
    RC_ASSERT(std::fabs(loss - cross_entropy(b.read(), 0, label, smoothing)) < 0x1p-43);
    cross_entropy_backward(a.read(), 0, label, smoothing, d.write());
    double sum = 0;
    for (const double v : d.values) sum += v;
    RC_ASSERT(std::fabs(sum) < 0x1p-43);
}

}  // namespace
