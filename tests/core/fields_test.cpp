#include <gx/core/fields.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace {

struct Nested {
    double first = 0.5;
    static constexpr std::array names{"first"};
};

struct Options {
    int batch = 128;
    float rate = 0.5f;
    std::string data = "fashion";
    std::vector<int> milestones{1, 2};
    Nested nested{};
    static constexpr std::array names{"batch", "rate", "data", "milestones", "nested"};
};

// ---- What the types promise ---------------------------------------------------------
static_assert(gx::NamedFields<Options>);
static_assert(gx::NamedFields<Nested>);
static_assert(gx::explain_named_fields<Options>());
static_assert(gx::field_names<Options>[3] == "milestones" && gx::field_names<Options>.size() == 5);

struct Nameless {
    int a = 0;
};
struct OneTooMany {
    int a = 0;
    static constexpr std::array names{"a", "b"};
};
struct OneTooFew {
    int a = 0, b = 0;
    static constexpr std::array names{"a"};
};
struct Twice {
    int a = 0, b = 0;
    static constexpr std::array names{"a", "a"};
};
struct Closed {
    [[maybe_unused]] static constexpr std::array names{"a"};
    explicit Closed(int v) : a(v) {}
    int a;
};
static_assert(!gx::NamedFields<Nameless>);
static_assert(!gx::NamedFields<OneTooMany>);
static_assert(!gx::NamedFields<OneTooFew>);
static_assert(!gx::NamedFields<Twice>);
static_assert(!gx::NamedFields<Closed>, "not an aggregate");
static_assert(!gx::NamedFields<int>);

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
