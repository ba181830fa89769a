// expect: gx: this is a Reducer where the Model is expected
// later: gx: this is a Scheduler where the Model is expected
// later: gx: this is an Optimizer where the Model is expected
// later: gx: this is a Loader where the Model is expected
// later: gx: this is a LossScale where the Model is expected
// later: gx: this is a Model where the Reducer is expected
// later: gx: this is a Scheduler where the Reducer is expected
// later: gx: this is an Optimizer where the Reducer is expected
// later: gx: this is a Loader where the Reducer is expected
// later: gx: this is a LossScale where the Reducer is expected
// later: gx: this is a Model where the Scheduler is expected
// later: gx: this is a Reducer where the Scheduler is expected
// later: gx: this is an Optimizer where the Scheduler is expected
// later: gx: this is a Loader where the Scheduler is expected
// later: gx: this is a LossScale where the Scheduler is expected
// later: gx: this is a Model where the Optimizer is expected
// later: gx: this is a Reducer where the Optimizer is expected
// later: gx: this is a Scheduler where the Optimizer is expected
// later: gx: this is a Loader where the Optimizer is expected
// later: gx: this is a LossScale where the Optimizer is expected
// later: gx: this is a Model where the Loader is expected
// later: gx: this is a Reducer where the Loader is expected
// later: gx: this is a Scheduler where the Loader is expected
// later: gx: this is an Optimizer where the Loader is expected
// later: gx: this is a LossScale where the Loader is expected
// later: gx: this is a Model where the LossScale is expected
// later: gx: this is a Reducer where the LossScale is expected
// later: gx: this is a Scheduler where the LossScale is expected
// later: gx: this is an Optimizer where the LossScale is expected
// later: gx: this is a Loader where the LossScale is expected
// later: gx: this is an Element where the Reducer is expected
#include <gx/loader/in_memory.hpp>
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

template class gx::Trainer<Ring<fp16>, Ring<fp16>, Warmup<Poly<2>>, Sgd, InMemory<>,
                           DynamicLossScale>;
template class gx::Trainer<Warmup<Poly<2>>, Ring<fp16>, Warmup<Poly<2>>, Sgd, InMemory<>,
                           DynamicLossScale>;
template class gx::Trainer<Sgd, Ring<fp16>, Warmup<Poly<2>>, Sgd, InMemory<>, DynamicLossScale>;
template class gx::Trainer<InMemory<>, Ring<fp16>, Warmup<Poly<2>>, Sgd, InMemory<>,
                           DynamicLossScale>;
template class gx::Trainer<DynamicLossScale, Ring<fp16>, Warmup<Poly<2>>, Sgd, InMemory<>,
                           DynamicLossScale>;
template class gx::Trainer<LeNet, LeNet, Warmup<Poly<2>>, Sgd, InMemory<>, DynamicLossScale>;
template class gx::Trainer<LeNet, Warmup<Poly<2>>, Warmup<Poly<2>>, Sgd, InMemory<>,
                           DynamicLossScale>;
template class gx::Trainer<LeNet, Sgd, Warmup<Poly<2>>, Sgd, InMemory<>, DynamicLossScale>;
template class gx::Trainer<LeNet, InMemory<>, Warmup<Poly<2>>, Sgd, InMemory<>, DynamicLossScale>;
template class gx::Trainer<LeNet, DynamicLossScale, Warmup<Poly<2>>, Sgd, InMemory<>,
                           DynamicLossScale>;
template class gx::Trainer<LeNet, Ring<fp16>, LeNet, Sgd, InMemory<>, DynamicLossScale>;
template class gx::Trainer<LeNet, Ring<fp16>, Ring<fp16>, Sgd, InMemory<>, DynamicLossScale>;
template class gx::Trainer<LeNet, Ring<fp16>, Sgd, Sgd, InMemory<>, DynamicLossScale>;
template class gx::Trainer<LeNet, Ring<fp16>, InMemory<>, Sgd, InMemory<>, DynamicLossScale>;
template class gx::Trainer<LeNet, Ring<fp16>, DynamicLossScale, Sgd, InMemory<>, DynamicLossScale>;
template class gx::Trainer<LeNet, Ring<fp16>, Warmup<Poly<2>>, LeNet, InMemory<>, DynamicLossScale>;
template class gx::Trainer<LeNet, Ring<fp16>, Warmup<Poly<2>>, Ring<fp16>, InMemory<>,
                           DynamicLossScale>;
template class gx::Trainer<LeNet, Ring<fp16>, Warmup<Poly<2>>, Warmup<Poly<2>>, InMemory<>,
                           DynamicLossScale>;
template class gx::Trainer<LeNet, Ring<fp16>, Warmup<Poly<2>>, InMemory<>, InMemory<>,
                           DynamicLossScale>;
template class gx::Trainer<LeNet, Ring<fp16>, Warmup<Poly<2>>, DynamicLossScale, InMemory<>,
                           DynamicLossScale>;
template class gx::Trainer<LeNet, Ring<fp16>, Warmup<Poly<2>>, Sgd, LeNet, DynamicLossScale>;
template class gx::Trainer<LeNet, Ring<fp16>, Warmup<Poly<2>>, Sgd, Ring<fp16>, DynamicLossScale>;
template class gx::Trainer<LeNet, Ring<fp16>, Warmup<Poly<2>>, Sgd, Warmup<Poly<2>>,
                           DynamicLossScale>;
template class gx::Trainer<LeNet, Ring<fp16>, Warmup<Poly<2>>, Sgd, Sgd, DynamicLossScale>;
template class gx::Trainer<LeNet, Ring<fp16>, Warmup<Poly<2>>, Sgd, DynamicLossScale,
                           DynamicLossScale>;
template class gx::Trainer<LeNet, Ring<fp16>, Warmup<Poly<2>>, Sgd, InMemory<>, LeNet>;
template class gx::Trainer<LeNet, Ring<fp16>, Warmup<Poly<2>>, Sgd, InMemory<>, Ring<fp16>>;
template class gx::Trainer<LeNet, Ring<fp16>, Warmup<Poly<2>>, Sgd, InMemory<>, Warmup<Poly<2>>>;
template class gx::Trainer<LeNet, Ring<fp16>, Warmup<Poly<2>>, Sgd, InMemory<>, Sgd>;
template class gx::Trainer<LeNet, Ring<fp16>, Warmup<Poly<2>>, Sgd, InMemory<>, InMemory<>>;
template class gx::Trainer<LeNet, fp16>;
