// expect: gx: this World sends from a GPU's memory, and its Device computes in the host's.
#include <gx/model/lenet.hpp>
#include <gx/nccl/world.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/reference/device.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

RunRecord train(nccl::World<reference::Device>& world, const Split& data) {
    return Trainer<LeNet, Ring<fp16>>().train(world, data);
}
