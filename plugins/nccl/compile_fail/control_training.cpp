#include <gx/cuda/device.hpp>
#include <gx/model/lenet.hpp>
#include <gx/nccl/world.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

RunRecord train(nccl::World<cuda::Device>& world, const Split& data) {
    return Trainer<LeNet, Ring<fp16>>().train(world, data);
}
