// Kernels of a network: flatten, channels, rounding, the check of activations.
#include "../src/network_kernels.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include <gx/cuda/emulation/grid.hpp>  // take_traffic
#include <gx/cuda_testing/runtime.hpp>

#include "device_memory.hpp"

namespace {

using namespace gx;
using namespace gx::cuda_tests;

TEST(NetworkKernels, FlattenAndItsGradient) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
        cuda_testing::reset({.seed = seed, .check_at_exit = false});
        const TestStream s;
        const cuda::PixelShape shape{.images = 2, .channels = 3, .pixels = 4};
        std::vector<std::uint16_t> maps, flat;
        for (int n = 0; n < 2; ++n)
            for (int p = 0; p < 4; ++p)
                for (int c = 0; c < 3; ++c) maps.push_back(std::uint16_t(100 * n + 10 * p + c));
        for (int n = 0; n < 2; ++n)
            for (int c = 0; c < 3; ++c)
                for (int p = 0; p < 4; ++p) flat.push_back(std::uint16_t(100 * n + 10 * p + c));
        const DeviceVector<std::uint16_t> from(s, maps);
        DeviceVector<std::uint16_t> to(s, flat.size()), back(s, flat.size());
        cuda::channels_to_front<std::uint16_t>(s, shape, from, to);
        EXPECT_EQ(to.host(), flat);
        cuda::channels_to_back<std::uint16_t>(s, shape, to, back);
        EXPECT_EQ(back.host(), maps);
        EXPECT_DEATH(cuda::channels_to_front<std::uint16_t>(s, {2, 5, 4}, from, to), "flatten");
    }
}
/// Rows of each side, and what is between the copied channels and the end stays.
template <class T>
void expect_copied_channels(std::int64_t pixels, std::int64_t count, std::int64_t from_channels,
                            std::int64_t from_first, std::int64_t to_channels,
                            std::int64_t to_first) {
    const TestStream s;
    std::vector<T> source, expected;
    for (std::int64_t i = 0; i < pixels * from_channels; ++i) source.push_back(T(1 + i % 1000));
    for (std::int64_t i = 0; i < pixels * to_channels; ++i) expected.push_back(T(2000 + i % 1000));
    const DeviceVector<T> from(s, source);
    DeviceVector<T> to(s, expected);
    for (std::int64_t p = 0; p < pixels; ++p)
        for (std::int64_t c = 0; c < count; ++c)
            expected[std::size_t(p * to_channels + to_first + c)] =
                source[std::size_t(p * from_channels + from_first + c)];
    (void)cuda::emulation::take_traffic();
    cuda::copy_channels<T>(s, count, {from, from_channels, from_first},
                           {to, to_channels, to_first});
    EXPECT_EQ(to.host(), expected);
    const cuda::emulation::Traffic moved = cuda::emulation::take_traffic();
    EXPECT_EQ(moved.read, pixels * count * std::int64_t{sizeof(T)}) << "once";
    EXPECT_EQ(moved.written, pixels * count * std::int64_t{sizeof(T)});
}
TEST(NetworkKernels, CopiesChannels) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
        cuda_testing::reset({.seed = seed, .check_at_exit = false});
        expect_copied_channels<std::uint16_t>(5, 3, 3, 0, 7, 4);    // joined
        expect_copied_channels<float>(5, 2, 7, 3, 2, 0);            // cut
        expect_copied_channels<std::uint16_t>(6, 8, 24, 8, 16, 8);  // in words
        expect_copied_channels<float>(6, 8, 12, 4, 8, 0);
        expect_copied_channels<std::uint16_t>(6, 8, 16, 4, 8, 0);  // no word begins there
        expect_copied_channels<float>(3, 1, 1, 0, 1, 0);
    }
}
TEST(NetworkKernelsDeathTest, CopiesChannelsThatAreThere) {
    cuda_testing::reset({.check_at_exit = false});
    const TestStream s;
    DeviceVector<float> six(s, 6), to(s, 4);
    const auto copy = [&](std::int64_t count, std::int64_t first, std::int64_t to_first) {
        cuda::copy_channels<float>(s, count, {six, 3, first}, {to, 2, to_first});
    };
    copy(2, 1, 0);
    EXPECT_DEATH(copy(0, 0, 0), "both sides of a copy of channels");
    EXPECT_DEATH(copy(2, 2, 0), "both sides of a copy of channels");
    EXPECT_DEATH(copy(2, 1, 1), "both sides of a copy of channels");
    EXPECT_DEATH(cuda::copy_channels<float>(s, 1, {six, 2, 0}, {to, 2, 0}), "one number of pixels");
}
TEST(NetworkKernels, RoundsToTheElement) {
    cuda_testing::reset({.check_at_exit = false});
    const TestStream s;
    DeviceVector<float> values(s, {1.0f, 1 + 0x1p-12f, 70'000.0f, -3.0f});
    cuda::round_to<fp16>(s, values);
    EXPECT_EQ(values.host(),
              (std::vector<float>{1, 1, std::numeric_limits<float>::infinity(), -3}));
}

/// Two activations of 2 and 3 elements an image, behind one element of something else.
template <class E>
class Checked {
public:
    explicit Checked(const std::vector<cuda::ChannelNorm>& norms = {})
        : norms_(stream_, norms),
          activations_(stream_, {{1, 2}, {5, 3, 1, norms.empty() ? 0 : 3}}) {}
    /// The counts, and whether any forward was checked.
    std::vector<std::uint32_t> after(bool finite, const std::vector<float>& values, int images) {
        const DeviceVector<typename E::storage> arena(stream_, bits(values));
        const DeviceVector<ForwardReport> report(stream_, {{.finite = finite}});
        const cuda::DeviceSpan<std::uint32_t> all = counts_;
        cuda::check_activations<E>(stream_, report, images, activations_, arena, norms_,
                                   {all.data, 2}, {all.data + 2, 1});
        return counts_.host();
    }

private:
    static std::vector<typename E::storage> bits(const std::vector<float>& values) {
        std::vector<typename E::storage> all;
        for (const float x : values) all.push_back(E::encode(x));
        return all;
    }
    TestStream stream_{};
    DeviceVector<cuda::ChannelNorm> norms_;
    DeviceVector<std::uint32_t> counts_{stream_, 3};
    DeviceVector<cuda::CheckedActivation> activations_;
};
template <class E>
void expect_first_is_kept() {
    constexpr float nan = std::numeric_limits<float>::quiet_NaN(),
                    inf = std::numeric_limits<float>::infinity();
    using Counts = std::vector<std::uint32_t>;
    cuda_testing::reset({.check_at_exit = false});
    Checked<E> c;
    const std::vector<float> bad{nan, 1, 2, 3, 4, -inf, 2, nan, 4, 5, 6, nan};
    EXPECT_EQ(c.after(true, bad, 2), (Counts{0, 0, 0})) << "the loss is finite";
    EXPECT_EQ(c.after(false, bad, 2), (Counts{0, 2, 1})) << "those beside do not count";
    EXPECT_EQ(c.after(false, {nan, nan, nan, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 2), (Counts{0, 2, 1}));
    Checked<E> tail;
    EXPECT_EQ(tail.after(false, {0, 1, 2, nan, nan, 1, 2, 3, nan, nan, nan, 0}, 1),
              (Counts{0, 0, 1}))
        << "of the images of the batch";
}
/// What norms make of an activation: a norm that is none, and an overflow of fp16 alone.
TEST(NetworkKernels, ChecksWhatNormsMakeOfAnActivation) {
    cuda_testing::reset({.check_at_exit = false});
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const cuda::ChannelNorm other{nan, 0, nan, nan, 0, 0}, unit{1, 0, 1, 0, 0, 0},
        large{0, 1, 30'000, 0, 0, 0}, bad{0, 0, 1, nan, 0, 0};
    const std::vector<float> values{9, 1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 9};
    using Counts = std::vector<std::uint32_t>;
    EXPECT_EQ(Checked<fp16>({other, unit, unit, unit}).after(false, values, 2), (Counts{0, 0, 1}));
    EXPECT_EQ(Checked<fp16>({other, unit, large, unit}).after(false, values, 2), (Counts{0, 1, 1}))
        << "(5 - 1) * 30,000";
    EXPECT_EQ(Checked<fp32>({other, unit, large, unit}).after(false, values, 2), (Counts{0, 0, 1}));
    EXPECT_EQ(Checked<bf16>({other, unit, unit, bad}).after(false, values, 2), (Counts{0, 2, 1}));
}
TEST(NetworkKernels, CountsOnceWhatIsNotFinite) {
    expect_first_is_kept<fp32>();
    expect_first_is_kept<fp16>();
    expect_first_is_kept<bf16>();
}

}  // namespace
