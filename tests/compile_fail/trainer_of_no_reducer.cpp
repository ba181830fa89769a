// expect: gx: this is an Element where the Reducer is expected
// expect: Fix: name both, as in 'Ring<gx::fp16>'.
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

Trainer<LeNet, fp16> trainer;
