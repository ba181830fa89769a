// expect: gx: train(data, world): the world comes first
#include <gx/loader/synthetic.hpp>
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/reference/device.hpp>
#include <gx/threads/threads.hpp>
#include <gx/trainer/trainer.hpp>

void train(gx::Threads<2, gx::reference::Device>& world, const gx::Split& data) {
    (void)gx::Trainer<gx::LeNet, gx::Ring<>>().train(data, world);
}
