// expect: gx: this is an Optimizer where the LossScale is expected
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

Trainer<LeNet, Ring<fp16>, Poly<2>, Sgd, InMemory<>, Sgd> trainer;
