// expect: gx: not a Model: an image too small for a window of the network
// near gcc: layer '7' (max_pool, operation 8): 1x1 input for a 2x2 window
// near clang: Layer<'7'>, gx::OpKind::max_pool, 8, gx::detail::model::Input<1, 1>
// errors: 1
#include <gx/model/layers.hpp>

using namespace gx;

// Four poolings halve the image: 8 rows end below one.
struct Deep : Network<ImageShape{1, 8, 8}, 10, Conv<4, 3, 1, 1>, ReLU, MaxPool<2>, MaxPool<2>,
                      Conv<8, 3, 1, 1>, ReLU, MaxPool<2>, MaxPool<2>, Classifier> {
    static constexpr std::string_view name = "Deep";
};
constexpr auto parameters = parameter_count<Deep>();
