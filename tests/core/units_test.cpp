#include <gx/core/units.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <concepts>

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
concept Multiplies = requires(A a, B b) { a * b; };

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

// ---- Properties ---------------------------------------------------------------------
RC_GTEST_PROP(Units, TransferTimeIsNearestNanosecond, ()) {
    const auto bytes = *rc::gen::inRange<std::int64_t>(0, 1'000'000'000'000);
    const auto rate = *rc::gen::inRange<std::int64_t>(1'000'000, 100'000'000'000);
    const long double exact = 1e9L * bytes / rate;  // 64 bits of significand
    const auto got = (Bytes{bytes} / BytesPerSecond{static_cast<double>(rate)}).count();
    // Half a nanosecond, and three roundings of 2^-53 on the way.
    RC_ASSERT(std::fabs(static_cast<long double>(got) - exact) <= 0.5L + exact * 0x3p-53L);
}

}  // namespace
