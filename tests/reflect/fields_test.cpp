#include <gx/reflect/fields.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace {

struct Nested {
    double first = 0.5;
};

struct Options {
    int batch = 128;
    float rate = 0.5f;
    std::string data = "fashion";
    std::vector<int> milestones{1, 2};
    Nested nested{};
};

// ---- What the types promise ---------------------------------------------------------
static_assert(gx::field_names<Options> ==
              std::array<std::string_view, 5>{"batch", "rate", "data", "milestones", "nested"});

/// Names of one letter, with digits and underscores, of every kind of member; more than ten.
struct Many {
    enum class Kind { a } kind{};
    bool b = false;
    std::array<int, 3> c{};
    const char* d_ = nullptr;
    double e0 = 0, e1 = 0, e2 = 0, e3 = 0;
    std::vector<Nested> nested_ones{};
    long last_2 = 0;
};
static_assert(gx::field_count<Many> == 10);
static_assert(gx::field_names<Many> == std::array<std::string_view, 10>{"kind", "b", "c", "d_",
                                                                        "e0", "e1", "e2", "e3",
                                                                        "nested_ones", "last_2"});

constexpr double sum_of_nested() {
    Nested n{.first = 2.0};
    double sum = 0;
    gx::for_each_field(n, [&](std::string_view, double x) { sum += x; });
    return sum;
}
static_assert(sum_of_nested() == 2.0, "walks in constant evaluation");

// ---- Cases worked by hand -----------------------------------------------------------
TEST(ForEachField, NamesMembersInOrder) {
    const Options options{.batch = 7};
    std::ostringstream text;
    gx::for_each_field(options, [&](std::string_view name, const auto& member) {
        text << name;
        if constexpr (requires { text << member; }) text << '=' << member;
        text << ' ';
    });
    EXPECT_EQ(text.str(), "batch=7 rate=0.5 data=fashion milestones nested ");
}

TEST(ForEachField, ChangesMembersInPlace) {
    Options options;
    gx::for_each_field(options, [](std::string_view, auto& member) { member = {}; });
    EXPECT_EQ(options.batch, 0);
    EXPECT_EQ(options.data, "");
    EXPECT_TRUE(options.milestones.empty());
    EXPECT_EQ(options.nested.first, 0.5) << "an aggregate's own default";
}

TEST(WithField, FindsOneByName) {
    Options options;
    const auto set = [](auto& member) {
        if constexpr (std::is_arithmetic_v<std::remove_reference_t<decltype(member)>>) member = 3;
    };
    EXPECT_TRUE(gx::with_field(options, "rate", set));
    EXPECT_EQ(options.rate, 3.0f);
    EXPECT_EQ(options.batch, 128);
}

// ---- Bad input ----------------------------------------------------------------------
TEST(WithField, SaysWhenThereIsNone) {
    Options options;
    EXPECT_FALSE(gx::with_field(options, "bacth", [](auto&) { FAIL() << "called"; }));
}

}  // namespace
