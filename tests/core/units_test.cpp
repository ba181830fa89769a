#include <gx/core/units.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <concepts>
#include <limits>
#include <string>

#include <gx/core/error.hpp>

namespace {

using namespace gx::literals;
using gx::Bytes, gx::BytesPerSecond, gx::Dollars, gx::DollarsPerHour, gx::Flops;
using gx::FlopsPerSecond, gx::Nanoseconds;

// ---- What the types promise ---------------------------------------------------------
template <class A, class B>
concept Adds = requires(A a, B b) { a + b; };
template <class A, class B>
concept Divides = requires(A a, B b) { a / b; };
template <class A, class B>
concept Compares = requires(A a, B b) { a < b; };
template <class A, class B>
concept Multiplies = requires(A a, B b) { a* b; };

static_assert(Adds<Bytes, Bytes> && !Adds<Bytes, Flops> && !Adds<Bytes, BytesPerSecond>);
static_assert(!Adds<Bytes, int>, "a plain number has no unit");
static_assert(!Adds<Dollars, DollarsPerHour>);
static_assert(!Multiplies<Bytes, Bytes> && !Multiplies<Bytes, Nanoseconds>);
static_assert(!Compares<Bytes, Flops> && Compares<Bytes, Bytes>);
static_assert(!Divides<Bytes, FlopsPerSecond> && !Divides<Flops, BytesPerSecond>);
static_assert(!std::convertible_to<std::int64_t, Bytes> && !std::convertible_to<Bytes, double>);
static_assert(std::same_as<decltype(1_B / 1_B), double>, "a ratio has no unit");
static_assert(std::same_as<decltype(1_B / 1_Gbps), Nanoseconds>);

// ---- Cases worked by hand -----------------------------------------------------------
static_assert(1_GB == 1'000'000'000_B && 1_GiB == 1'073'741'824_B, "GB is 10^9, not 2^30");
static_assert(1_MB == 1'000'000_B && 1_MiB == 1'048'576_B && 1_KiB == 1024_B);
static_assert(8_Gbps == 1_GBps, "bits on the wire, bytes in memory");
static_assert(10_Gbps == 10.0_Gbps && 2_GBps == 2.0_GBps);
static_assert(1_MB / 1_GBps == Nanoseconds(1'000'000));
static_assert(3_B / 2_GBps == Nanoseconds(2), "1.5 ns rounds up");
static_assert(100_MB / 25_Gbps == Nanoseconds(32'000'000));
static_assert(Flops{2e12} / 1.0_TFLOPS == gx::nanoseconds(2.0));
static_assert(10_us == Nanoseconds(10'000));
static_assert(DollarsPerHour{24.48} * gx::nanoseconds(3600.0) == Dollars{24.48});
static_assert(gx::seconds(Nanoseconds(1'500'000'000)) == 1.5);
static_assert(3_B + 4_B == 7_B && 9_B - 4_B == 5_B && 3_B * 4 == 12_B && 3 * 4_B == 12_B);
static_assert(9_B / 2 == 4_B && 3_B / 4_B == 0.75 && 1_B < 2_B);

TEST(Units, AccumulateInPlace) {
    Bytes b = 5_B;
    b += 3_B;
    b -= 1_B;
    EXPECT_EQ(b.count, 7);
}

static_assert(gx::nearest_integer(2.5, "n") == 3 && gx::nearest_integer(2.4, "n") == 2);
static_assert(gx::nearest_integer(-2.5, "n", std::int64_t{-9}) == -3);
static_assert(gx::nearest_integer(0x1.fffffffffffffp-2, "n") == 0, "just below a half");
static_assert(gx::nearest_integer<int>(2147483647.0, "n") == 2147483647);
static_assert(gx::exact_integer<int>(-4.0, "n", -4, 4) == -4);
static_assert(gx::nearest_integer<std::uint64_t>(0x1.fffffffffffffp63, "n") ==
              0xffff'ffff'ffff'f800u);
static_assert(gx::bytes(1.5e9) == 1'500'000'000_B && gx::bytes(0x1p62) == Bytes{1LL << 62});
static_assert(gx::nanoseconds(9223372036.8) < Nanoseconds::max());
static_assert(gx::expect_in(0.5, 0, 1, "share") == 0.5);

template <class Work>
std::string refusal(const Work& work) {
    try {
        work();
    } catch (const gx::Error& e) {
        return e.what();
    }
    return "accepted";
}
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(Units, ConversionsNameTheQuantityAndTheAcceptedRange) {
    EXPECT_EQ(refusal([] { (void)gx::nanoseconds(nan); }),
              "time is nan s: expected a number from 0 to 9223372036 s.");
    EXPECT_EQ(refusal([] { (void)gx::nanoseconds(-1e-9, "launch time"); }),
              "launch time is -1e-09 s: expected a number from 0 to 9223372036 s.");
    EXPECT_EQ(refusal([] { (void)(1_GB / BytesPerSecond{0}); }),
              "transfer time is inf s: expected a number from 0 to 9223372036 s.");
    EXPECT_EQ(refusal([] { (void)(Flops{1} / FlopsPerSecond{-1}); }),
              "compute time is -1 s: expected a number from 0 to 9223372036 s.");
    EXPECT_EQ(refusal([] { (void)gx::bytes(infinity, "gradient"); }),
              "gradient is inf: expected a number from 0 to 9.22337203685e+18.");
    EXPECT_EQ(refusal([] { (void)gx::nearest_integer<int>(1e300, "batch", 1, 65536); }),
              "batch is 1e+300: expected a number from 1 to 65536.");
    EXPECT_EQ(refusal([] { (void)gx::exact_integer<int>(0.5, "GPUs per node", 1, 64); }),
              "GPUs per node is 0.5: expected a whole number from 1 to 64.");
    EXPECT_EQ(refusal([] { gx::expect_in(1e-300, 0.001, 1e6, "NIC rate", "Gb/s"); }),
              "NIC rate is 1e-300 Gb/s: expected a number from 0.001 to 1000000 Gb/s.");
}
TEST(Units, ConversionsRefuseTheFirstValueOutside) {
    const auto up = [](double x) { return std::nextafter(x, infinity); };
    const auto down = [](double x) { return std::nextafter(x, -infinity); };
    EXPECT_EQ(refusal([&] { (void)gx::nearest_integer(down(0x1p63), "n"); }), "accepted");
    EXPECT_NE(refusal([&] { (void)gx::nearest_integer(0x1p63, "n"); }), "accepted");
    EXPECT_NE(refusal([&] { (void)gx::nearest_integer<std::uint64_t>(0x1p64, "n"); }), "accepted");
    EXPECT_EQ(refusal([&] { (void)gx::nearest_integer<int>(2147483647.0, "n"); }), "accepted");
    EXPECT_NE(refusal([&] { (void)gx::nearest_integer<int>(up(2147483647.0), "n"); }), "accepted");
    EXPECT_NE(refusal([&] { (void)gx::nearest_integer(down(0), "n"); }), "accepted");
    EXPECT_EQ(refusal([&] { (void)gx::nanoseconds(down(0x1p63 / 1e9)); }), "accepted");
    EXPECT_NE(refusal([&] { (void)gx::nanoseconds(up(0x1p63 / 1e9)); }), "accepted");
    EXPECT_EQ(refusal([&] { (void)gx::nanoseconds(-0.0); }), "accepted");
}

// ---- Properties ---------------------------------------------------------------------
RC_GTEST_PROP(Units, TransferTimeIsNearestNanosecond, ()) {
    const auto bytes = *rc::gen::inRange<std::int64_t>(0, 1'000'000'000'000);
    const auto rate = *rc::gen::inRange<std::int64_t>(1'000'000, 100'000'000'000);
    const long double exact = 1e9L * bytes / rate;  // 64 bits of significand
    const auto got = (Bytes{bytes} / BytesPerSecond{static_cast<double>(rate)}).count();
    // Half a nanosecond, and three roundings of 2^-53 on the way.
    RC_ASSERT(std::fabs(static_cast<long double>(got) - exact) <= 0.5L + exact * 0x3p-53L);
}

/// Any double: each exponent and each special value, not only the small ones.
rc::Gen<double> any_double() {
    return rc::gen::map(rc::gen::arbitrary<std::uint64_t>(),
                        [](std::uint64_t bits) { return std::bit_cast<double>(bits); });
}
// The oracle rounds in long double, whose 64 bits hold every double and its half exactly.
template <class I>
void expect_nearest_or_refused(double x) {
    const auto low = static_cast<long double>(std::numeric_limits<I>::min());
    const auto high = static_cast<long double>(std::numeric_limits<I>::max());
    const long double nearest = std::round(static_cast<long double>(x));
    I got = 0;
    const bool accepted = refusal([&] {
                              got = gx::nearest_integer<I>(x, "n", std::numeric_limits<I>::min());
                          }) == "accepted";
    RC_ASSERT(accepted == (x >= low && x <= high));
    if (accepted) RC_ASSERT(static_cast<long double>(got) == nearest);
    const bool exact = refusal([&] {
                           (void)gx::exact_integer<I>(x, "n", std::numeric_limits<I>::min());
                       }) == "accepted";
    RC_ASSERT(exact == (accepted && nearest == x));
}
RC_GTEST_PROP(Units, NearestIntegerOfAnyDoubleIsNearestOrRefused, ()) {
    const double x = *any_double();
    const double near = std::fmod(x, 1e19);  // NaN for NaN; else where integers lie
    for (const double y : {x, near, std::fmod(x, 1e10), std::fmod(x, 4.0)}) {
        expect_nearest_or_refused<std::int64_t>(y);
        expect_nearest_or_refused<std::uint64_t>(y);
        expect_nearest_or_refused<std::int32_t>(y);
        expect_nearest_or_refused<std::int8_t>(y);
    }
}
RC_GTEST_PROP(Units, AnyTimeIsNearestNanosecondOrRefused, ()) {
    const double x = *any_double();
    for (const double s : {x, std::fmod(x, 1e10), std::fmod(x, 1.0)}) {
        std::int64_t got = -1;
        const std::string sentence = refusal([&] { got = gx::nanoseconds(s).count(); });
        if (s >= 0 && s < 9223372036.0) {
            const long double exact = 1e9L * s;
            RC_ASSERT(std::fabs(static_cast<long double>(got) - exact) <= 0.5L + exact * 0x3p-53L);
        } else if (!(s >= 0 && s <= 9223372037.0)) {
            RC_ASSERT(sentence.starts_with("time is "));
        }
    }
}

}  // namespace
