// expect: gx: not a Scheduler: no 'float rate(gx::Step) const'
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

Trainer<LeNet, Ring<fp16>, Sgd> trainer;
