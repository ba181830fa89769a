#include <gx/core/function_ref.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <type_traits>

namespace {

using gx::FunctionRef;

// ---- What the type promises ---------------------------------------------------------
static_assert(std::is_trivially_copyable_v<FunctionRef<void()>>);
static_assert(sizeof(FunctionRef<void()>) == 2 * sizeof(void*));
struct Doubles {
    constexpr int operator()(int x) const { return 2 * x; }
};
static_assert(std::convertible_to<Doubles&, FunctionRef<int(int)>>);
static_assert(std::convertible_to<Doubles&, FunctionRef<long(int)>>, "answers that convert");
static_assert(std::convertible_to<const Doubles&, FunctionRef<int(int)>>);
static_assert(!std::convertible_to<Doubles&, FunctionRef<int(std::string)>>);
static_assert(!std::convertible_to<Doubles&, FunctionRef<std::string(int)>>);
static_assert(!std::convertible_to<int&, FunctionRef<void()>>);

int call(FunctionRef<int(int)> f, int x) { return f(x); }

// ---- Cases worked by hand -----------------------------------------------------------
TEST(FunctionRef, CallsLambdasObjectsAndConstObjects) {
    const int offset = 10;
    EXPECT_EQ(call([&](int x) { return x + offset; }, 1), 11);
    Doubles doubles;
    EXPECT_EQ(call(doubles, 4), 8);
    const Doubles fixed;
    EXPECT_EQ(call(fixed, 5), 10);
}

TEST(FunctionRef, RefersAndDoesNotCopy) {
    int calls = 0;
    auto counter = [calls = &calls, own = 0](int) mutable {
        ++*calls;
        return ++own;
    };
    const FunctionRef<int(int)> f = counter;
    const FunctionRef<int(int)> copy = f;
    EXPECT_EQ(f(0), 1);
    EXPECT_EQ(copy(0), 2) << "the same object";
    EXPECT_EQ(calls, 2);
}

TEST(FunctionRef, PassesReferencesAndMovesValues) {
    std::string text = "a";
    auto append = [](std::string& s) { s += "b"; };
    FunctionRef<void(std::string&)>{append}(text);
    EXPECT_EQ(text, "ab");

    auto take = [](std::unique_ptr<int> p) { return *p; };
    EXPECT_EQ(FunctionRef<int(std::unique_ptr<int>)>{take}(std::make_unique<int>(7)), 7);
}

TEST(FunctionRef, LetsExceptionsPass) {
    auto throws = [](int) -> int { throw 7; };
    EXPECT_THROW(call(throws, 0), int);
}

}  // namespace
