// expect: gx: not a Model: an image too small for a window of the network
// expect: Fix: give 'input' a larger image
#include <gx/model/vgg.hpp>

// Five poolings halve the image: 16 rows end below one.
using Small = gx::WithInput<gx::Vgg16, gx::ImageShape{3, 16, 16}>;
const auto graph = gx::graph<Small>();
