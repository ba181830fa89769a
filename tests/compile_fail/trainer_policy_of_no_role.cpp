// expect: gx: this policy has no role in a Trainer
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/trainer/trainer.hpp>

gx::Trainer<gx::LeNet, gx::Ring<gx::fp16>, gx::Poly<2>, gx::Sgd, gx::InMemory<>, int> trainer;
