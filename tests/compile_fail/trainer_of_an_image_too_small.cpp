// expect: gx: not a Model: an image too small for a window of the network
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

using Small = WithInput<LeNet, ImageShape{1, 4, 4}>;
Trainer<Small, Ring<fp16>> trainer;
