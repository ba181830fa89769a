// The networks of the neighbours, spelt rightly: they must compile.
#include <gx/model/layers.hpp>

using namespace gx;

struct Deep : Network<ImageShape{1, 16, 16}, 10, Conv<4, 3, 1, 1>, ReLU, MaxPool<2>, MaxPool<2>,
                      Conv<8, 3, 1, 1>, ReLU, MaxPool<2>, MaxPool<2>, Classifier> {
    static constexpr std::string_view name = "Deep";
};
struct Forwards
    : Network<ImageShape{1, 8, 8}, 10, Conv<4, 3, 1, 1>, ReLU, Conv<8, 3>, Linear<32>, Classifier> {
    static constexpr std::string_view name = "Forwards";
};
/// A convolution behind a mean over the image is no mistake.
struct Squeezed
    : Network<ImageShape{1, 8, 8}, 10, Conv<4, 3, 1, 1>, GlobalAvgPool, Conv<8, 1>, Classifier> {
    static constexpr std::string_view name = "Squeezed";
};
constexpr auto parameters =
    parameter_count<Deep>() + parameter_count<Forwards>() + parameter_count<Squeezed>();
