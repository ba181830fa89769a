// expect: gx: this World has no device to train on, it only communicates
#include <gx/threads/threads.hpp>
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

RunRecord train(Threads<2>& world, const Split& data) {
    return Trainer<LeNet, Ring<fp16>>().train(world, data);
}
