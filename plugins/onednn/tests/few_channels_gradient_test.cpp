// FewChannelsWeightGradient: beside the serial sum, for any first layer.
#include <gx/onednn/detail/tiles/few_channels_gradient.hpp>

#include <cstddef>  // size_t
#include <cstdint>  // uint64_t
#include <vector>   // tensors

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "weight_gradients.hpp"

namespace {

using namespace weight_gradients;
using gx::onednn::detail::FewChannelsWeightGradient;

/// In (k, r, s, c).
std::vector<float> by_tiles(const Shape& s, const Tensors& t, const Blocking& blocking,
                            const std::vector<float>& add_to = {}) {
    const FewChannelsWeightGradient gradient(s.x(), s.dy(), s.window, s.images, blocking);
    const auto in_order = [](std::size_t i) { return i; };
    return AmxTiles::allowed() ? run_guarded<AmxTiles>(gradient, s, t, add_to, in_order)
                               : run_guarded<EmulatedTiles>(gradient, s, t, add_to, in_order);
}
Shape any_first_layer() {
    Shape s = any_shape();
    s.in = *rc::gen::inRange(1, 32 / s.window.width + 1), s.block = 1;
    return s;
}
RC_GTEST_PROP(FewChannelsWeightGradient, EqualsTheSerialSum, (std::uint64_t seed)) {
    if (!packs()) return;
    const Shape s = any_first_layer();
    RC_ASSERT(FewChannelsWeightGradient::runs(s.x(), s.dy(), s.window));
    const Tensors t = small_integers(s, seed);
    RC_ASSERT(by_tiles(s, t, any_blocking()) == serial(s, t));
}
RC_GTEST_PROP(FewChannelsWeightGradient, AddsToWhatIsThere, (std::uint64_t seed)) {
    if (!packs()) return;
    const Shape s = any_first_layer();
    const Tensors t = small_integers(s, seed);
    const auto once = serial(s, t);
    auto twice = once;
    for (float& v : twice) v *= 2;
    RC_ASSERT(by_tiles(s, t, any_blocking(), once) == twice);
}
TEST(FewChannelsWeightGradient, RefusesWideRowsOfAWindow) {
    const auto runs = [](int in, int width, int out) {
        const gx::Window w{.height = 3, .width = width};
        return FewChannelsWeightGradient::runs({{in, 9, 9}, 1, true}, {{out, 7, 7}, 16, true}, w);
    };
    EXPECT_TRUE(runs(3, 7, 64));
    EXPECT_TRUE(runs(4, 8, 64));
    EXPECT_FALSE(runs(3, 11, 64));
    EXPECT_FALSE(runs(3, 7, 16));
}

}  // namespace
