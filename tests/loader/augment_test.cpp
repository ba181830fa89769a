#include <gx/loader/augment.hpp>

#include <gx/core/rng.hpp>

#include <array>

#include <gtest/gtest.h>

namespace {

using namespace gx;

// ---- What the types promise -----------------------------------------------------------------
static_assert(Augmentation<PadCrop<4>> && Augmentation<Flip>);
static_assert(!Augmentation<View> && !Augmentation<int>);
static_assert(PadCrop<1>::stream != Flip::stream, "numbers of their own");

// ---- Cases worked by hand -------------------------------------------------------------------
constexpr View moved(auto augmentation, RandomWords words, View view = {}) {
    decltype(augmentation)::move(view, words);
    return view;
}
static_assert(moved(PadCrop<4>{}, {0, 0, 0, 0}) == View{-4, -4, false});
static_assert(moved(PadCrop<4>{}, {~0u, ~0u, 0, 0}) == View{4, 4, false});
static_assert(moved(PadCrop<4>{}, {1u << 31, 0, 0, 0}) == View{0, -4, false});
static_assert(moved(PadCrop<4>{}, {~0u, ~0u, 0, 0}, View{1, 2, true}) == View{5, 6, true});
static_assert(moved(Flip{}, {0, 0, 0, 0}) == View{});
static_assert(moved(Flip{}, {1u << 31, 0, 0, 0}) == View{0, 0, true});
static_assert(moved(Flip{}, {1u << 31, 0, 0, 0}, View{0, 0, true}) == View{});

// ---- Every offset comes up, equally often ---------------------------------------------------
TEST(PadCrop, TakesEveryOffsetEquallyOften) {
    std::array<int, 81> seen{};
    const Rng rng(1, PadCrop<4>::stream);
    constexpr int draws = 81'000;
    for (std::uint64_t i = 0; i < draws; ++i) {
        const View v = moved(PadCrop<4>{}, rng.bits(i));
        ++seen.at(static_cast<std::size_t>((v.down + 4) * 9 + v.right + 4));
    }
    double chi = 0;  // 80 degrees of freedom: above 146 with a chance of 1e-5
    for (const int n : seen) chi += (n - 1000.0) * (n - 1000.0) / 1000;
    EXPECT_LT(chi, 146);
}
TEST(Flip, FlipsHalfOfThem) {
    const Rng rng(1, Flip::stream);
    int flipped = 0;
    for (std::uint64_t i = 0; i < 10'000; ++i) flipped += moved(Flip{}, rng.bits(i)).mirrored;
    EXPECT_NEAR(flipped, 5'000, 250);  // five standard deviations
}

}  // namespace
