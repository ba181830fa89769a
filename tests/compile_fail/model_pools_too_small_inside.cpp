// expect: gx: not a Model: an image too small for a window of the network
// near gcc: layer 'tail.2.1' (avg_pool, operation 4): 2x2 input for a 3x3 window
// near clang: Layer<'t', 'a', 'i', 'l', '.', '2', '.', '1'>, gx::OpKind::avg_pool, 4
#include <gx/model/layers.hpp>

using namespace gx;

struct Inside
    : Network<ImageShape{1, 4, 4}, 10,
              Named<"tail", Sequential<Conv<4, 3, 1, 1>, ReLU, Sequential<MaxPool<2>, AvgPool<3>>>>,
              Classifier> {
    static constexpr std::string_view name = "Inside";
};
constexpr auto parameters = parameter_count<Inside>();
