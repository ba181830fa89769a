// expect: gx: this is an Optimizer where the Scheduler is expected
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

Trainer<LeNet, Ring<fp16>, Sgd> trainer;
