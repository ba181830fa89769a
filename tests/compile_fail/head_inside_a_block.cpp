// expect: gx: no such Head: more than one tensor crosses the cut before this layer.
#include <gx/model/head.hpp>
#include <gx/model/resnet.hpp>

constexpr auto shape = gx::Head<gx::ResNet18, "layer1.0.conv2">::input;
