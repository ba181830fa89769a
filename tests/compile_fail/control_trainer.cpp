// Each slot of the Trainer filled rightly, as the neighbours fill it wrongly: it must compile.
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

Trainer<LeNet, Ring<fp16>, Warmup<Poly<2>>, Sgd, InMemory<>> trainer;
Trainer<LeNet, Ring<fp16>, Warmup<Poly<2>>, StaticLossScale, InMemory<>, Sgd> any_order;
Trainer<LeNet, Ring<fp16>, Warmup<Poly<2>>, Compute<bf16>, Sgd> in_bf16;
