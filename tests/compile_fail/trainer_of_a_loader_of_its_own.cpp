// expect: gx: this Loader can't be built from a data set and a rank's share of it
#include <gx/loader/synthetic.hpp>
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

Trainer<LeNet, Ring<fp16>, Poly<2>, Sgd, SyntheticLoader> trainer;
