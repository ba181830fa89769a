// expect: gx: this policy is declared here and not defined
// expect: Fix: include its header
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/trainer/trainer.hpp>

struct Mine;  // a policy of the user's own
gx::Trainer<gx::LeNet, gx::Ring<gx::fp16>, Mine> trainer;
