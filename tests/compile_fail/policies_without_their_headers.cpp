// expect: include its header. Fix: #include <gx/model/alexnet.hpp>
// later: include its header. Fix: #include <gx/model/lenet.hpp>
// later: include its header. Fix: #include <gx/model/vgg.hpp>
// later: include its header. Fix: #include <gx/model/mlp.hpp>
// later: include its header. Fix: #include <gx/model/resnet.hpp>
// later: include its header. Fix: #include <gx/model/resnext.hpp>
// later: include its header. Fix: #include <gx/model/cifar_resnet.hpp>
// later: include its header. Fix: #include <gx/model/inception.hpp>
// later: include its header. Fix: #include <gx/model/bert.hpp>
// later: include its header. Fix: #include <gx/model/albert.hpp>
// later: include its header. Fix: #include <gx/model/gpt.hpp>
// later: include its header. Fix: #include <gx/reducer/ring.hpp>
// later: include its header. Fix: #include <gx/reducer/multi_ring.hpp>
// later: include its header. Fix: #include <gx/reducer/bucketed.hpp>
// later: include its header. Fix: #include <gx/reducer/double_buffered.hpp>
// later: include its header. Fix: #include <gx/scheduler/constant.hpp>
// later: include its header. Fix: #include <gx/scheduler/cosine.hpp>
// later: include its header. Fix: #include <gx/scheduler/one_cycle.hpp>
// later: include its header. Fix: #include <gx/scheduler/piecewise_linear.hpp>
// later: include its header. Fix: #include <gx/scheduler/step_decay.hpp>
// later: include its header. Fix: #include <gx/scheduler/linear_scaling.hpp>
// later: include its header. Fix: #include <gx/scheduler/poly.hpp>
// later: include its header. Fix: #include <gx/scheduler/warmup.hpp>
// later: include its header. Fix: #include <gx/optimizer/adam.hpp>
// later: include its header. Fix: #include <gx/optimizer/adamw.hpp>
// later: include its header. Fix: #include <gx/optimizer/lamb.hpp>
// later: include its header. Fix: #include <gx/optimizer/clip_by_global_norm.hpp>
// later: include its header. Fix: #include <gx/optimizer/lars.hpp>
// later: include its header. Fix: #include <gx/optimizer/sgd.hpp>
// later: include its header. Fix: #include <gx/optimizer/weight_average.hpp>
// later: include its header. Fix: #include <gx/loader/in_memory.hpp>
// later: include its header. Fix: #include <gx/loader/prefetch.hpp>
// later: include its header. Fix: #include <gx/loader/synthetic.hpp>
#include <gx/loader/concept.hpp>
#include <gx/model/concept.hpp>
#include <gx/optimizer/concept.hpp>
#include <gx/reducer/concept.hpp>
#include <gx/scheduler/concept.hpp>

using namespace gx;

static_assert(explain_model<AlexNet>());
static_assert(explain_model<LeNet>());
static_assert(explain_model<Vgg16>());
static_assert(explain_model<Mlp<64>>());
static_assert(explain_model<ResNet50>());
static_assert(explain_model<ResNeXt50>());
static_assert(explain_model<ResNet20>());
static_assert(explain_model<InceptionV3>());
static_assert(explain_model<BertBase>());
static_assert(explain_model<AlbertBase>());
static_assert(explain_model<Gpt2Small>());
static_assert(explain_reducer<Ring<fp16>>());
static_assert(explain_reducer<MultiRing<4, fp16>>());
static_assert(explain_reducer<Bucketed<Ring<>, 1 << 20>>());
static_assert(explain_reducer<DoubleBuffered<Ring<>>>());
static_assert(explain_scheduler<Constant>());
static_assert(explain_scheduler<Cosine>());
static_assert(explain_scheduler<OneCycle>());
static_assert(explain_scheduler<PiecewiseLinear>());
static_assert(explain_scheduler<StepDecay>());
static_assert(explain_scheduler<LinearScaling<Constant>>());
static_assert(explain_scheduler<Poly<2>>());
static_assert(explain_scheduler<Warmup<Poly<2>>>());
static_assert(explain_optimizer<Adam>());
static_assert(explain_optimizer<AdamW>());
static_assert(explain_optimizer<Lamb>());
static_assert(explain_optimizer<ClipByGlobalNorm<Sgd>>());
static_assert(explain_optimizer<WeightAverage<Sgd>>());
static_assert(explain_optimizer<Lars>());
static_assert(explain_optimizer<Sgd>());
static_assert(explain_loader<InMemory<>>());
static_assert(explain_loader<Prefetched<InMemory<>>>());
static_assert(explain_loader<SyntheticLoader>());
