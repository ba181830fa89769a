// expect: gx: this Trainer has two Optimizers. One moves the parameters. Fix: drop one.
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

Trainer<LeNet, Ring<fp16>, Poly<2>, Sgd, Sgd> trainer;
