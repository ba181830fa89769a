// expect: gx: not a Model: a convolution or a pooling behind a Linear or a Flatten
// near gcc: layer '3' (conv2d, operation 5): 1x1 input for a 3x3 window
// near clang: Layer<'3'>, gx::OpKind::conv2d, 5, gx::detail::model::Input<1, 1>
#include <gx/model/layers.hpp>

using namespace gx;

struct Backwards
    : Network<ImageShape{1, 8, 8}, 10, Conv<4, 3, 1, 1>, Linear<32>, ReLU, Conv<8, 3>, Classifier> {
    static constexpr std::string_view name = "Backwards";
};
constexpr auto parameters = parameter_count<Backwards>();
