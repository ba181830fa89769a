// expect: gx: not a Reducer: no element type 'wire_type'
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

Trainer<LeNet, fp16> trainer;
