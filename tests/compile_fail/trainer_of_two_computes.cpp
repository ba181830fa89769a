// expect: gx: this Trainer has two Computes. One names the element that devices compute in.
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

Trainer<LeNet, Ring<fp16>, Poly<2>, Compute<bf16>, Sgd, Compute<fp16>> trainer;
