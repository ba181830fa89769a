// The network of model_image_too_small.cpp on a larger image than its own: it must compile.
#include <gx/model/vgg.hpp>

using Large = gx::WithInput<gx::Vgg16, gx::ImageShape{3, 448, 448}>;
const auto graph = gx::graph<Large>();
