// expect: gx: train(world, data): one source where two belong
#include <gx/loader/synthetic.hpp>
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/reference/device.hpp>
#include <gx/threads/threads.hpp>
#include <gx/trainer/trainer.hpp>

void train(gx::Threads<2, gx::reference::Device>& world, const gx::Dataset& images) {
    (void)gx::Trainer<gx::LeNet, gx::Ring<>>().train(world, images);
}
