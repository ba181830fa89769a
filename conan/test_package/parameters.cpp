// Uses the packaged gx: the headers and the libraries they need must arrive.
#include <gx/model/resnet.hpp>

#include <fmt/format.h>

int main() { fmt::print("{} parameters\n", gx::parameter_count<gx::ResNet50>()); }
