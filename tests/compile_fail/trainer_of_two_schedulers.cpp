// expect: gx: this Scheduler stands behind another
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

Trainer<LeNet, Ring<fp16>, Poly<2>, Poly<2>> trainer;
