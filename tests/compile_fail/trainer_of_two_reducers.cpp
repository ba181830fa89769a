// expect: gx: this Reducer stands behind the Scheduler
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

Trainer<LeNet, Ring<fp16>, Poly<2>, Sgd, Ring<fp16>> trainer;
