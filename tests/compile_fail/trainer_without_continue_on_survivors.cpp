// expect: Fix: #include <gx/survival/continue_on_survivors.hpp>
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/survival/fwd.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

Trainer<LeNet, Ring<fp16>, Poly<2>, ContinueOnSurvivors> trainer;
