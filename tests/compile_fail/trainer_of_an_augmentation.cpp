// expect: gx: this is an augmentation where a policy of a Trainer is expected.
// expect: Fix: name it there, as in 'InMemory<gx::PadCrop<4>>'.
// errors: 1
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/trainer/trainer.hpp>

gx::Trainer<gx::LeNet, gx::Ring<gx::fp16>, gx::Poly<2>, gx::PadCrop<4>> trainer;
