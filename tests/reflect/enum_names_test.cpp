#include <gx/reflect/enum_names.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

namespace {

enum class Colour : unsigned char { red, deep_blue, green2 };
struct Fabric {
    enum class Kind { star };
};

// ---- What the types promise ---------------------------------------------------------
static_assert(gx::enum_names<Colour> ==
              std::array<std::string_view, 3>{"red", "deep_blue", "green2"});
static_assert(gx::enum_names<Fabric::Kind> == std::array<std::string_view, 1>{"star"});
static_assert(gx::enum_names<Colour>.size() == 3, "numbers without a name are no values");

// ---- Cases worked by hand -----------------------------------------------------------
TEST(EnumNames, NamesAValue) {
    EXPECT_EQ(gx::enum_name(Colour::deep_blue), "deep_blue");
    EXPECT_EQ(gx::enum_name(Fabric::Kind::star), "star");
}

// ---- Bad input ----------------------------------------------------------------------
TEST(EnumNames, ANumberWithoutANameIsEmpty) {
    EXPECT_EQ(gx::enum_name(static_cast<Colour>(3)), "");
    EXPECT_EQ(gx::enum_name(static_cast<Colour>(200)), "");
}

}  // namespace
