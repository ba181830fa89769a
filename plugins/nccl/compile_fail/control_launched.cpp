#include <gx/cuda/device.hpp>
#include <gx/model/lenet.hpp>
#include <gx/nccl/launched_world.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

RunRecord train(const Split& data) {
    nccl::LaunchedWorld<cuda::Device> world;
    return Trainer<LeNet, Ring<fp16>>().train(world, data);
}
