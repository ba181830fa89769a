#include <gx/io/nearest.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <string>

namespace {

using gx::edit_distance, gx::nearest_name, gx::suggested_name;

constexpr std::array<std::string_view, 4> options{"batch", "epochs", "peak_rate", "patch"};

// ---- Cases worked by hand -----------------------------------------------------------
TEST(EditDistance, CountsEdits) {
    EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
    EXPECT_EQ(edit_distance("flaw", "lawn"), 2u);
    EXPECT_EQ(edit_distance("", ""), 0u);
    EXPECT_EQ(edit_distance("", "abc"), 3u);
    EXPECT_EQ(edit_distance("abc", ""), 3u);
    EXPECT_EQ(edit_distance("batch", "bacth"), 1u) << "neighbours swapped";
    EXPECT_EQ(edit_distance("ca", "abc"), 3u) << "no letter is edited twice";
    EXPECT_EQ(edit_distance("Peak-Rate", "peak_rate"), 0u);
}

TEST(NearestName, SuggestsWhatIsNearAndNothingElse) {
    EXPECT_EQ(nearest_name("bacth", options), "batch");
    EXPECT_EQ(nearest_name("epoch", options), "epochs");
    EXPECT_EQ(nearest_name("peak-rate", options), "peak_rate");
    EXPECT_EQ(nearest_name("match", options), "batch") << "the first of two";
    EXPECT_EQ(nearest_name("patch", options), "patch") << "though batch is near, and earlier";
    EXPECT_EQ(nearest_name("momentum", options), "");
    EXPECT_EQ(nearest_name("", options), "");
    EXPECT_EQ(nearest_name("x", {}), "");
    EXPECT_EQ(nearest_name("bitxh", options), "") << "two letters of five are too many";
}

TEST(SuggestedName, IsTheOneNameThatBeginsAsTypedWhereNoneIsNear) {
    constexpr std::array<std::string_view, 4> machines{"p2.xlarge", "p3.2xlarge", "p3.16xlarge",
                                                       "p5.48xlarge"};
    EXPECT_EQ(nearest_name("p5", machines), "") << "by edits alone";
    EXPECT_EQ(suggested_name("p5", machines), "p5.48xlarge");
    EXPECT_EQ(suggested_name("P5", machines), "p5.48xlarge");
    EXPECT_EQ(suggested_name("p3", machines), "") << "one of two";
    EXPECT_EQ(suggested_name("p", machines), "") << "one letter";
    EXPECT_EQ(suggested_name("5.48xlarge", machines), "p5.48xlarge") << "by its distance";
    constexpr std::array<std::string_view, 3> family{"p5en.48xlarge", "p5.48xlarge",
                                                     "p5e.48xlarge"};
    EXPECT_EQ(suggested_name("p5", family), "p5.48xlarge") << "of three the one with that word";
    EXPECT_EQ(suggested_name("P5E", family), "p5e.48xlarge");
    constexpr std::array<std::string_view, 2> sizes{"g2-standard-96", "n1-standard-96-8xV100"};
    EXPECT_EQ(suggested_name("n1-standard-96", sizes), "n1-standard-96-8xV100") << "by words";
    constexpr std::array<std::string_view, 4> known{"--machine", "--budget-dollars", "--json",
                                                    "pytorch-ddp"};
    EXPECT_EQ(suggested_name("--machine-file", known), "--machine");
    EXPECT_EQ(suggested_name("--budget", known), "--budget-dollars");
    EXPECT_EQ(suggested_name("--budget_d", known), "--budget-dollars");
    EXPECT_EQ(suggested_name("pytorch", known), "pytorch-ddp");
    EXPECT_EQ(suggested_name("--j", known), "") << "one letter behind the dashes";
    EXPECT_EQ(suggested_name("--", known), "");
}

TEST(UnknownName, IsASentence) {
    EXPECT_EQ(gx::unknown_name("option", "bacth", options),
              "unknown option 'bacth': did you mean 'batch'?");
    EXPECT_EQ(gx::unknown_name("option", "momentum", options),
              "unknown option 'momentum': known are batch, epochs, peak_rate, patch");
    EXPECT_EQ(gx::unknown_name("option", "x", {}), "unknown option 'x': none is known here");
}

// ---- Properties: a distance, on words of few letters --------------------------------------
rc::Gen<std::string> words() {
    return rc::gen::scale(0.1, rc::gen::container<std::string>(rc::gen::element('a', 'b', 'c')));
}

// Plain recursion over the three edits and the swap: the definition, exponential and short.
std::size_t by_recursion(std::string_view a, std::string_view b) {
    if (a.empty() || b.empty()) return a.size() + b.size();
    const std::size_t changed = by_recursion(a.substr(1), b.substr(1)) + (a[0] == b[0] ? 0 : 1);
    std::size_t least =
        std::min({by_recursion(a.substr(1), b) + 1, by_recursion(a, b.substr(1)) + 1, changed});
    if (a.size() > 1 && b.size() > 1 && a[0] == b[1] && a[1] == b[0])
        least = std::min(least, by_recursion(a.substr(2), b.substr(2)) + 1);
    return least;
}

RC_GTEST_PROP(EditDistance, EqualsTheDefinition, ()) {
    const std::string a = (*words()).substr(0, 6), b = (*words()).substr(0, 6);
    RC_ASSERT(edit_distance(a, b) == by_recursion(a, b));
}

RC_GTEST_PROP(EditDistance, IsSymmetricAndZeroOnlyForEqualWords, ()) {
    const std::string a = *words(), b = *words();
    RC_ASSERT(edit_distance(a, b) == edit_distance(b, a));
    RC_ASSERT((edit_distance(a, b) == 0) == (a == b));
}

}  // namespace
