// expect: gx: each rank applies gradients of its own and skips its own overflows
// expect: Fix: use gx::StaticLossScale.
#include <gx/local_sgd/reducer.hpp>
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/trainer/trainer.hpp>

gx::Trainer<gx::LeNet, gx::LocalSgd<gx::Ring<>, 4>, gx::Poly<2>, gx::DynamicLossScale> trainer;
