// expect: gx: not a Model: no text 'name'
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

Trainer<int, Ring<fp16>> trainer;
