// Uses an installed gx: walks a graph and rounds a number, to see headers and libraries arrive.
#include <gx/core/element.hpp>
#include <gx/halving_doubling/reducer.hpp>  // a plugin
#include <gx/model/resnet.hpp>

#include <boost/context/fiber.hpp>  // of gx::sim
#include <fmt/format.h>             // of gx::gx

#include <cstdlib>

static_assert(gx::parameter_count<gx::ResNet50>() == 25'557'032);
static_assert(gx::Reducer<gx::HalvingDoubling<gx::fp16>>);

int main() {
    fmt::print("{} parameters\n", gx::parameter_count<gx::ResNet50>());
    return gx::fp16::decode(gx::fp16::encode(1.0f)) == 1.0f ? EXIT_SUCCESS : EXIT_FAILURE;
}
