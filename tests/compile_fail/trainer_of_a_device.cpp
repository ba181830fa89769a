// expect: gx: this is a Device where a policy of a Trainer is expected.
// expect: Fix: name it there, as in 'Threads<4, gx::onednn::Device>'.
// errors: 1
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/reference/device.hpp>
#include <gx/trainer/trainer.hpp>

gx::Trainer<gx::LeNet, gx::Ring<gx::fp16>, gx::reference::Device> trainer;
