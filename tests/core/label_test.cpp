#include <gx/core/label.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <type_traits>

namespace {

using gx::Label;

// ---- What the type promises ---------------------------------------------------------
static_assert(std::is_trivially_copyable_v<Label>, "lives in constants, copies as bytes");
static_assert(Label() == Label(""));
static_assert(Label("layer") + 3 + ".conv" + 10 == Label("layer3.conv10"));
static_assert(Label("x") + 0 == Label("x0"));
static_assert(Label("a") != Label("b") && Label("a") != Label("aa"));

template <std::size_t Length>
consteval Label of_length() {
    const std::array<char, 100> a = [] {
        std::array<char, 100> all{};
        all.fill('a');
        return all;
    }();
    return Label(std::string_view(a.data(), Length));
}
static_assert(of_length<63>().view().size() == 63);

// ---- Properties ---------------------------------------------------------------------
RC_GTEST_PROP(Label, HoldsWhatAStringWould, ()) {
    const auto a = *rc::gen::resize(30, rc::gen::string<std::string>());
    const auto b = *rc::gen::resize(20, rc::gen::string<std::string>());
    const auto number = *rc::gen::inRange(0, 2'000'000'000);
    const Label label = Label(std::string_view(a)) + std::string_view(b) + number;
    RC_ASSERT(label.view() == a + b + std::to_string(number));
    RC_ASSERT((Label(std::string_view(a)) == Label(std::string_view(b))) == (a == b));
}

// ---- Bad input ----------------------------------------------------------------------
TEST(LabelDeathTest, StopsWhenTooLongOrNegative) {
    EXPECT_DEATH(Label(std::string_view(std::string(64, 'a'))), "at most 63 characters");
    EXPECT_DEATH((void)(of_length<63>() + "b"), "at most 63 characters");
    EXPECT_DEATH((void)(Label("a") + -1), "count from 0");
}

}  // namespace
