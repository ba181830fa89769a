// expect: gx: this is a Reducer where the Model is expected
// later: gx: this is a Scheduler where the Model is expected
// later: gx: this is an Optimizer where the Model is expected
// later: gx: this is a Loader where the Model is expected
// later: gx: this is a LossScale where the Model is expected
// later: gx: this is a Survival where the Model is expected
// later: gx: this is a Compute where the Model is expected
// later: gx: this is a Model where the Reducer is expected
// later: gx: this is a Scheduler where the Reducer is expected
// later: gx: this is an Optimizer where the Reducer is expected
// later: gx: this is a Loader where the Reducer is expected
// later: gx: this is a LossScale where the Reducer is expected
// later: gx: this is a Survival where the Reducer is expected
// later: gx: this is a Model where the Scheduler is expected
// later: gx: this is a Reducer where the Scheduler is expected
// later: gx: this is an Optimizer where the Scheduler is expected
// later: gx: this is a Loader where the Scheduler is expected
// later: gx: this is a LossScale where the Scheduler is expected
// later: gx: this is a Survival where the Scheduler is expected
// later: gx: this is a Compute where the Reducer is expected
// later: gx: this is a Compute where the Scheduler is expected
// later: gx: this is an Element where the Reducer is expected
// later: gx: this Model stands behind the Scheduler
// later: gx: this Reducer stands behind the Scheduler
// later: gx: this Scheduler stands behind another
// later: gx: this Element stands where policies
// later: gx: this policy has no role in a Trainer
// later: gx: this Trainer has two Optimizers
// later: gx: this Trainer has two Loaders
// later: gx: this Trainer has two LossScales
// later: gx: this Trainer has two Survivals
// later: gx: this Trainer has two Computes
#include <gx/loader/in_memory.hpp>
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/survival/continue_on_survivors.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

template class gx::Trainer<Ring<fp16>, Ring<fp16>, Warmup<Poly<2>>>;
template class gx::Trainer<Warmup<Poly<2>>, Ring<fp16>, Warmup<Poly<2>>>;
template class gx::Trainer<Sgd, Ring<fp16>, Warmup<Poly<2>>>;
template class gx::Trainer<InMemory<>, Ring<fp16>, Warmup<Poly<2>>>;
template class gx::Trainer<DynamicLossScale, Ring<fp16>, Warmup<Poly<2>>>;
template class gx::Trainer<StopOnLoss, Ring<fp16>, Warmup<Poly<2>>>;
template class gx::Trainer<Compute<bf16>, Ring<fp16>, Warmup<Poly<2>>>;
template class gx::Trainer<LeNet, LeNet, Warmup<Poly<2>>>;
template class gx::Trainer<LeNet, Warmup<Poly<2>>, Warmup<Poly<2>>>;
template class gx::Trainer<LeNet, Sgd, Warmup<Poly<2>>>;
template class gx::Trainer<LeNet, InMemory<>, Warmup<Poly<2>>>;
template class gx::Trainer<LeNet, DynamicLossScale, Warmup<Poly<2>>>;
template class gx::Trainer<LeNet, StopOnLoss, Warmup<Poly<2>>>;
template class gx::Trainer<LeNet, Compute<bf16>>;
template class gx::Trainer<LeNet, fp16>;
template class gx::Trainer<LeNet, Ring<fp16>, LeNet>;
template class gx::Trainer<LeNet, Ring<fp16>, Ring<fp16>>;
template class gx::Trainer<LeNet, Ring<fp16>, Sgd>;
template class gx::Trainer<LeNet, Ring<fp16>, InMemory<>>;
template class gx::Trainer<LeNet, Ring<fp16>, DynamicLossScale>;
template class gx::Trainer<LeNet, Ring<fp16>, ContinueOnSurvivors>;
template class gx::Trainer<LeNet, Ring<fp16>, Compute<bf16>>;
template class gx::Trainer<LeNet, Ring<fp16>, Poly<2>, LeNet>;
template class gx::Trainer<LeNet, Ring<fp16>, Poly<2>, Sgd, Ring<fp16>>;
template class gx::Trainer<LeNet, Ring<fp16>, Poly<2>, InMemory<>, Poly<2>>;
template class gx::Trainer<LeNet, Ring<fp16>, Poly<2>, fp16>;
template class gx::Trainer<LeNet, Ring<fp16>, Poly<2>, int>;
template class gx::Trainer<LeNet, Ring<fp16>, Poly<2>, Sgd, InMemory<>, Sgd>;
template class gx::Trainer<LeNet, Ring<fp16>, Poly<2>, InMemory<>, InMemory<>>;
template class gx::Trainer<LeNet, Ring<fp16>, Poly<2>, DynamicLossScale, StaticLossScale>;
template class gx::Trainer<LeNet, Ring<fp16>, Poly<2>, StopOnLoss, Sgd, ContinueOnSurvivors>;
template class gx::Trainer<LeNet, Ring<fp16>, Poly<2>, Compute<fp16>, Compute<bf16>>;
