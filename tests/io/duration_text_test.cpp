#include <gx/io/duration_text.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

namespace {

using gx::duration_text, gx::Nanoseconds;

TEST(DurationText, NamesTheLargestUnitThatIsNotAboveTheTime) {
    EXPECT_EQ(duration_text(Nanoseconds(0)), "0 ns");
    EXPECT_EQ(duration_text(Nanoseconds(999)), "999 ns");
    EXPECT_EQ(duration_text(Nanoseconds(1'000)), "1 us");
    EXPECT_EQ(duration_text(Nanoseconds(90'000)), "90 us");
    EXPECT_EQ(duration_text(Nanoseconds(999'999)), "999.999 us");
    EXPECT_EQ(duration_text(Nanoseconds(2'010'000)), "2.01 ms");
    EXPECT_EQ(duration_text(Nanoseconds(1'000'000'001)), "1.000000001 s");
    EXPECT_EQ(duration_text(std::chrono::seconds(600)), "600 s");
    EXPECT_EQ(duration_text(Nanoseconds(-1)), "-1 ns");
    EXPECT_EQ(duration_text(Nanoseconds::min()), "-9223372036.854775808 s");
}

RC_GTEST_PROP(DurationText, KeepsEveryNanosecond, ()) {
    const int bits = *rc::gen::inRange(0, 63);
    const std::int64_t ns = *rc::gen::arbitrary<std::int64_t>() >> bits;
    const std::string text = duration_text(Nanoseconds(ns));
    const std::size_t space = text.find(' '), point = std::min(text.find('.'), space);
    const std::string unit = text.substr(space + 1);
    const std::size_t places = unit == "s" ? 9 : unit == "ms" ? 6 : unit == "us" ? 3 : 0;
    std::string digits = text.substr(0, point);
    const std::string part = point < space ? text.substr(point + 1, space - point - 1) : "";
    RC_ASSERT(part.size() <= places && !part.ends_with('0'));
    digits += part + std::string(places - part.size(), '0');
    RC_ASSERT(std::stoll(digits) == ns);
}

}  // namespace
