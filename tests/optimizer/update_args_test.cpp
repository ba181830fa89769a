#include <gx/optimizer/update_args.hpp>  // first, so the header is seen to stand alone

#include <vector>

#include <gtest/gtest.h>

namespace {

using namespace gx;
using detail::optimizer::block;
using detail::optimizer::expect_reserved;
using detail::optimizer::for_each_block;
using Parts = std::vector<std::pair<std::size_t, std::size_t>>;

Parts parts_of(const ParameterSlice& slice) {
    Parts parts;
    for_each_block(slice, [&](std::size_t i, std::size_t count) { parts.emplace_back(i, count); });
    return parts;
}

TEST(UpdateArgs, AreCutIntoBlocksThatEndWithTheSlice) {
    EXPECT_EQ(parts_of({5, 0, 0}), Parts{});
    EXPECT_EQ(parts_of({5, 3, 0}), (Parts{{5, 3}}));
    EXPECT_EQ(parts_of({5, 2 * block + 1, 0}),
              (Parts{{5, block}, {5 + block, block}, {5 + 2 * block, 1}}));
}

TEST(UpdateArgsDeathTest, OtherThanReservedBreakTheContract) {
    std::vector<float> w(4), g(4), few(3), state(8);
    const std::vector<ParameterSlice> good{{0, 4, 1}}, outside{{2, 3, 0}}, unknown{{0, 4, 2}},
        wrapped{{static_cast<std::size_t>(-1), 2, 0}};
    const auto check = [&](std::vector<float>& gradients, const std::vector<ParameterSlice>& slices,
                           std::size_t vectors = 2) {
        expect_reserved({.parameters = w, .gradients = gradients, .state = state, .slices = slices},
                        4, 2, vectors);
    };
    check(g, good);
    EXPECT_DEATH(check(few, good), "as long as was reserved");
    EXPECT_DEATH(check(g, good, 1), "a vector as long as was reserved for each of its names");
    EXPECT_DEATH(check(g, {}), "names its parameters");
    EXPECT_DEATH(check(g, outside), "outside of the flat vector");
    EXPECT_DEATH(check(g, wrapped), "outside of the flat vector");
    EXPECT_DEATH(check(g, unknown), "a parameter of the reserved graph");
}

}  // namespace
