// expect: gx: this World sends from the host's memory, and its Device computes in a GPU's.
#include <gx/cuda/device.hpp>
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/threads/threads.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

RunRecord train(Threads<2, cuda::Device>& world, const Split& data) {
    return Trainer<LeNet, Ring<fp16>>().train(world, data);
}
