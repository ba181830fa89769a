#include <gx/reflect/options_of.hpp>

#include <concepts>

#include <gtest/gtest.h>

namespace {

struct Plain {
    int value = 7;
};
struct Tuned {
    struct Options {
        int value = 3;
    };
    Tuned() = default;
    explicit Tuned(Options o) : value(o.value) {}
    int value = 0;
};

static_assert(std::same_as<gx::options_of<Plain>, gx::NoOptions>);
static_assert(std::same_as<gx::options_of<Tuned>, Tuned::Options>);

TEST(OptionsOf, MakesAPolicyFromThem) {
    EXPECT_EQ(gx::make_policy<Plain>({}).value, 7);
    EXPECT_EQ(gx::make_policy<Tuned>({}).value, 3);
    EXPECT_EQ(gx::make_policy<Tuned>({.value = 5}).value, 5);
}

}  // namespace
