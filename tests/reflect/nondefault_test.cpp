#include <gx/reflect/nondefault.hpp>  // first, so the header is seen to stand alone

#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>

namespace {

using gx::nondefault;

enum class Kind : unsigned char { plain, fancy };
struct Inner {
    double peak = 0.5;
    int steps = 3;
};
struct Options {
    float rate = 0.1f;
    bool nesterov = false;
    std::int64_t count = 7;
    unsigned char small = 1;
    Kind kind = Kind::plain;
    std::string data = "fashion";
    Inner next{.peak = 2};
};
struct None {};

TEST(Nondefault, DefaultsAreNotPrinted) {
    EXPECT_EQ(nondefault(Options{}), "");
    EXPECT_EQ(nondefault(None{}), "");
}
TEST(Nondefault, EachKindOfMember) {
    EXPECT_EQ(nondefault(Options{.rate = 5e-4f}), ".rate = 5e-04");
    EXPECT_EQ(nondefault(Options{.rate = 0.25f, .nesterov = true}),
              ".rate = 0.25, .nesterov = true");
    EXPECT_EQ(nondefault(Options{.count = -1, .small = 65}), ".count = -1, .small = 65");
    EXPECT_EQ(nondefault(Options{.kind = Kind::fancy, .data = ""}), ".kind = fancy, .data = \"\"");
}
TEST(Nondefault, AMemberIsComparedWithTheDefaultOfItsOwner) {
    EXPECT_EQ(nondefault(Options{.next = {.peak = 2}}), "");
    EXPECT_EQ(nondefault(Options{.next = {}}), ".next = {.peak = 0.5}");
    EXPECT_EQ(nondefault(Options{.next = {.peak = 2, .steps = 4}}), ".next = {.steps = 4}");
}
TEST(Nondefault, NeighbouringNumbersDiffer) {
    const float next = std::nextafter(0.25f, 1.0f);
    EXPECT_NE(nondefault(Options{.rate = next}), nondefault(Options{.rate = 0.25f}));
    EXPECT_EQ(nondefault(Options{.rate = -0.0f}), ".rate = -0");
    EXPECT_EQ(nondefault(Options{.rate = std::numeric_limits<float>::quiet_NaN()}), ".rate = nan");
}

}  // namespace
