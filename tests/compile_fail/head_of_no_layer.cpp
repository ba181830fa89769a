// expect: gx: no such Head: the network has no layer of this name behind its input.
#include <gx/model/head.hpp>
#include <gx/model/resnet.hpp>

constexpr auto shape = gx::Head<gx::ResNet18, "layer9">::input;
