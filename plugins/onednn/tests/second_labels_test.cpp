// Losses of mixed images: PyTorch's, in the bits of one label where the second has no share.
#include <gx/onednn/device.hpp>

#include <vector>

#include <gtest/gtest.h>

#include <gx/reference/device.hpp>  // Device

#include <reference/loss_fixture.hpp>  // what PyTorch gave

namespace {

using namespace gx;
namespace fixture = reference::testing::loss;
static_assert(TakesSecondLabels<onednn::Device> && TakesSecondLabels<reference::Device>);

/// Its logits are its images.
struct Logits {
    explicit Logits(double smoothing) {
        GraphBuilder b("logits", {1, 1, fixture::classes}, fixture::classes);
        b.softmax_cross_entropy(
            b.linear(b.flatten(b.input(), "flat"), fixture::classes, true, "fc"), smoothing,
            "loss");
        graph = std::move(b).finish();
        for (int i = 0; i < fixture::classes * fixture::classes; ++i)
            parameters.push_back(i % (fixture::classes + 1) == 0 ? 1.0f : 0.0f);
        parameters.resize(parameters.size() + fixture::classes);
    }
    Graph graph{};
    std::vector<float> parameters{};
};
struct Pass {
    ForwardReport report{};
    std::vector<float> gradients{};  ///< of the logits
};
/// Of image `n` alone: the bias has the gradient of its logits.
template <class D>
Pass pass(double smoothing, int n, std::vector<SecondLabel> second, int label = -1) {
    const Logits net(smoothing);
    D device(net.graph, DeviceOptions{.batch = 2});
    device.update([&](std::span<float> mine) { device.from_canonical(net.parameters, mine); });
    std::vector<float> image;
    for (int k = 0; k < fixture::classes; ++k)
        image.push_back(float(fixture::distinct[n * fixture::classes + k]));
    const std::vector<std::int32_t> labels{label < 0 ? fixture::first[n] : label};
    Pass out;
    out.report = device.forward(
        {.images = image, .labels = labels, .count = 1, .second_labels = second}, Mode::train);
    std::vector<float> mine(device.parameters().size()), canonical(net.parameters.size());
    device.backward(1.0f, mine, [](std::size_t) {});
    device.to_canonical(mine, canonical);
    out.gradients.assign(canonical.end() - fixture::classes, canonical.end());
    return out;
}

template <class D>
class SecondLabels : public ::testing::Test {};
using Devices = ::testing::Types<onednn::Device, reference::Device>;
TYPED_TEST_SUITE(SecondLabels, Devices);

TYPED_TEST(SecondLabels, HaveTheLossOfTorch) {
    for (const bool smoothed : {false, true}) {
        const double* losses = smoothed ? fixture::smoothed_mixed_loss : fixture::plain_mixed_loss;
        const double* gradient =
            smoothed ? fixture::smoothed_mixed_gradient : fixture::plain_mixed_gradient;
        for (int n = 0; n < fixture::images; ++n) {
            const SecondLabel second{fixture::second[n], float(1 - fixture::weight[n])};
            const Pass p = pass<TypeParam>(smoothed ? 0.125 : 0, n, {second});
            EXPECT_NEAR(p.report.loss_sum, losses[n], 1e-13) << n;
            for (int k = 0; k < fixture::classes; ++k)  // rounded to float once
                EXPECT_NEAR(p.gradients[std::size_t(k)], gradient[n * fixture::classes + k],
                            0x1p-24)
                    << n;
        }
    }
}
TYPED_TEST(SecondLabels, WithoutAShareLeaveTheBitsOfOneLabel) {
    for (const double smoothing : {0.0, 0.1})
        for (int n = 0; n < fixture::images; ++n) {
            const Pass one = pass<TypeParam>(smoothing, n, {}),
                       none = pass<TypeParam>(smoothing, n, {{fixture::second[n], 0}}),
                       all = pass<TypeParam>(smoothing, n, {{fixture::first[n], 1}},
                                             fixture::second[n]);
            for (const Pass& p : {none, all}) {
                EXPECT_EQ(p.report.loss_sum, one.report.loss_sum);
                EXPECT_EQ(p.report.correct, one.report.correct);
                EXPECT_EQ(p.report.top5, one.report.top5);
                EXPECT_EQ(p.gradients, one.gradients);
            }
        }
}
TYPED_TEST(SecondLabels, AreHitWhereTheirShareIsTheLarger) {
    int at = 0;  // the class of the largest logit
    for (int k = 0; k < fixture::classes; ++k)
        if (fixture::distinct[k] > fixture::distinct[at]) at = k;
    const int other = (at + 1) % fixture::classes;
    EXPECT_EQ(pass<TypeParam>(0, 0, {{other, 0.5f}}, at).report.correct, 1) << "the first of equal";
    EXPECT_EQ(pass<TypeParam>(0, 0, {{at, 0.5f}}, other).report.correct, 0);
    EXPECT_EQ(pass<TypeParam>(0, 0, {{at, 0.75f}}, other).report.correct, 1);
}
// What a step leaves is forgotten by the next.
TYPED_TEST(SecondLabels, AreThoseOfTheirBatch) {
    const Logits net(0);
    TypeParam device(net.graph, DeviceOptions{.batch = 2});
    device.update([&](std::span<float> mine) { device.from_canonical(net.parameters, mine); });
    std::vector<float> images;
    for (int i = 0; i < 2 * fixture::classes; ++i) images.push_back(float(fixture::distinct[i]));
    const std::vector<std::int32_t> labels{1, 2};
    const std::vector<SecondLabel> second{{3, 0.5f}, {4, 0.25f}};
    const Batch plain{.images = images, .labels = labels, .count = 2};
    Batch mixed = plain;
    mixed.second_labels = second;
    const double before = device.forward(plain, Mode::train).loss_sum;
    EXPECT_NE(device.forward(mixed, Mode::train).loss_sum, before);
    EXPECT_EQ(device.forward(plain, Mode::train).loss_sum, before);
    mixed.second_labels = std::span(second).first(1);
    EXPECT_DEATH((void)device.forward(mixed, Mode::train), "one second label for each image");
    const std::vector<SecondLabel> wrong{{3, 0.5f}, {9, 0.25f}};
    mixed.second_labels = wrong;
    EXPECT_DEATH((void)device.forward(mixed, Mode::train), "is that of a class");
}

}  // namespace
