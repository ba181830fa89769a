// How sums are rounded: cases worked by hand, and the bounds that sums.hpp states.
#include <gx/reference/sums.hpp>

#include <cmath>   // fabs
#include <vector>  // products

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/core/element.hpp>      // fp16
#include <gx/core/rng.hpp>          // Rng
#include <gx/model/mlp.hpp>         // Mlp
#include <gx/reference/device.hpp>  // SummingDevice

namespace {

using namespace gx::reference;

double sum(Sums sums, double start, const std::vector<double>& products) {
    with_sums(sums, [&](auto add) {
        for (const double p : products) add(start, p);
    });
    return start;
}

// 24 bits from 1 on: units of 2^-23. 3/4 of a unit is rounded up to the nearest, and cut off.
TEST(SumsOfProducts, AreRoundedAsTheirUnitDoes) {
    const double most = 0.75 * 0x1p-23, unit = 0x1p-23;
    EXPECT_EQ(sum(Sums::exact, 1, {most}), 1 + most);
    EXPECT_EQ(sum(Sums::fp32, 1, {most}), 1 + unit);
    EXPECT_EQ(sum(Sums::truncated, 1, {most}), 1);
    EXPECT_EQ(sum(Sums::fp32, -1, {-most}), -1 - unit);
    EXPECT_EQ(sum(Sums::truncated, -1, {-most}), -1) << "towards 0";
    // A tie goes to the even one, whether by itself or from double.
    EXPECT_EQ(sum(Sums::fp32, 1, {0.5 * unit}), 1);
    EXPECT_EQ(sum(Sums::fp32, 1 + unit, {0.5 * unit}), 1 + 2 * unit);
    // Aligned to the larger addend, the smaller loses its last bits before they are added, here
    // those of 2^-23 - 2^-25 below 2^-23; then 1 - 0 stays 1 where exact arithmetic goes below.
    EXPECT_EQ(sum(Sums::truncated, 1, {-most}), 1);
    // A carry into a 25th bit: 1 + (1 - 2^-24 * ...) has its last bit cut.
    EXPECT_EQ(sum(Sums::truncated, 1 + unit, {1}), 2);
    EXPECT_EQ(sum(Sums::fp32, 1 + 3 * unit, {1}), 2 + 4 * unit);
    EXPECT_EQ(sum(Sums::truncated, 1 + 3 * unit, {1}), 2 + 2 * unit);
    EXPECT_TRUE(std::isinf(sum(Sums::truncated, 1, {HUGE_VAL})));
    EXPECT_EQ(sum(Sums::truncated, 0, {0.0}), 0);
}

std::vector<double> products(std::size_t count, std::uint64_t seed, bool one_sign) {
    const gx::Rng r(seed, "products");
    std::vector<double> all;
    for (std::size_t i = 0; i < count; ++i) {
        const auto in_fp16 = [&](std::uint64_t stream) {
            return double(gx::fp16::decode(gx::fp16::encode(r.at(stream).normal(i))));
        };
        const double p = in_fp16(0) * in_fp16(1);
        all.push_back(one_sign ? std::fabs(p) : p);
    }
    return all;
}
RC_GTEST_PROP(SumsOfProducts, StayWithinTheStatedBounds, (std::uint64_t seed, bool one_sign)) {
    const auto n = std::size_t(1) + seed % 2000;
    const auto p = products(n, seed, one_sign);
    double exact = 0, size = 0;
    for (const double x : p) exact += x, size += std::fabs(x);
    const auto bound = [&](double unit) {
        return double(n) * unit / (1 - double(n) * unit) * size;
    };
    RC_ASSERT(std::fabs(sum(Sums::fp32, 0, p) - exact) <= bound(0x1p-24));
    const double cut = sum(Sums::truncated, 0, p);
    RC_ASSERT(std::fabs(cut - exact) <= bound(0x1p-22));
    RC_ASSERT(!one_sign || cut <= exact);
    RC_ASSERT(double(float(cut)) == cut);
}
/// Of positive products nearest errs to both sides, truncation to one.
TEST(SumsOfProducts, DriftWhereTheyAreTruncated) {
    const auto p = products(10'000, 1, true);
    const double exact = sum(Sums::exact, 0, p);
    const double nearest = exact - sum(Sums::fp32, 0, p), cut = exact - sum(Sums::truncated, 0, p);
    EXPECT_GT(cut, 0);
    EXPECT_GT(cut, 4 * std::fabs(nearest));
}

/// A device with each kind of sums has other bits in fp32, and gradients nearby in fp16 too.
TEST(SumsOfADevice, AreTheOnesItWasMadeWith) {
    const gx::Graph g = gx::graph<gx::Mlp<40>>({.input = {1, 12, 12}, .classes = 3});
    const gx::Rng r(3, "numbers");
    std::vector<float> start(std::size_t(g.parameter_elements())), images(4 * 144);
    for (std::size_t i = 0; i < start.size(); ++i) start[i] = 0.1f * r.at(0).normal(i);
    for (std::size_t i = 0; i < images.size(); ++i) images[i] = r.at(1).normal(i);
    const std::vector<std::int32_t> labels{0, 1, 2, 0};
    const auto gradients = [&]<class D>(std::type_identity<D>, gx::ElementType e) {
        D d(g, {.batch = 4, .compute = e});
        d.update([&](std::span<float> w) { std::ranges::copy(start, w.begin()); });
        (void)d.forward({images, labels, 4}, gx::Mode::train);
        std::vector<float> all(start.size());
        d.backward(1024, all, [](std::size_t) {});
        return all;
    };
    for (const auto e : {gx::ElementType::fp32, gx::ElementType::fp16}) {
        const auto exact = gradients(std::type_identity<Device>{}, e);
        const auto nearest = gradients(std::type_identity<SummingDevice<Sums::fp32>>{}, e);
        const auto cut = gradients(std::type_identity<SummingDevice<Sums::truncated>>{}, e);
        if (e == gx::ElementType::fp32) {  // what fp16 stores has too few digits to show it always
            EXPECT_NE(cut, exact);
            EXPECT_NE(cut, nearest);
            EXPECT_NE(nearest, exact);
        }
        double far = 0, size = 0;
        for (std::size_t i = 0; i < exact.size(); ++i) {
            far += std::fabs(cut[i] - exact[i]), size += std::fabs(exact[i]);
        }
        EXPECT_LT(far, 0.01 * size);
    }
}

}  // namespace
