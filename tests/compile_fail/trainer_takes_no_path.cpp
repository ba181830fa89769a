// expect: gx: train(world, data): this is no data to train on
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/reference/device.hpp>
#include <gx/threads/threads.hpp>
#include <gx/trainer/trainer.hpp>

void train(gx::Threads<2, gx::reference::Device>& world) {
    (void)gx::Trainer<gx::LeNet, gx::Ring<>>().train(world, "images/train");
}
