// The policies of policies_without_their_headers.cpp with them: they must compile.
#include <gx/loader/in_memory.hpp>
#include <gx/loader/prefetch.hpp>
#include <gx/loader/synthetic.hpp>
#include <gx/model/albert.hpp>
#include <gx/model/alexnet.hpp>
#include <gx/model/bert.hpp>
#include <gx/model/cifar_resnet.hpp>
#include <gx/model/gpt.hpp>
#include <gx/model/inception.hpp>
#include <gx/model/lenet.hpp>
#include <gx/model/mlp.hpp>
#include <gx/model/resnet.hpp>
#include <gx/model/resnext.hpp>
#include <gx/model/vgg.hpp>
#include <gx/optimizer/adam.hpp>
#include <gx/optimizer/adamw.hpp>
#include <gx/optimizer/clip_by_global_norm.hpp>
#include <gx/optimizer/lamb.hpp>
#include <gx/optimizer/lars.hpp>
#include <gx/optimizer/sgd.hpp>
#include <gx/optimizer/weight_average.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/scheduler/constant.hpp>
#include <gx/scheduler/cosine.hpp>
#include <gx/scheduler/linear_scaling.hpp>
#include <gx/scheduler/one_cycle.hpp>
#include <gx/scheduler/piecewise_linear.hpp>
#include <gx/scheduler/poly.hpp>
#include <gx/scheduler/step_decay.hpp>
#include <gx/scheduler/warmup.hpp>

using namespace gx;

static_assert(detail::role::Complete<AlexNet>);
static_assert(detail::role::Complete<LeNet>);
static_assert(detail::role::Complete<Vgg16>);
static_assert(detail::role::Complete<Mlp<64>>);
static_assert(detail::role::Complete<ResNet50>);
static_assert(detail::role::Complete<ResNeXt50>);
static_assert(detail::role::Complete<ResNet20>);
static_assert(detail::role::Complete<InceptionV3>);
static_assert(detail::role::Complete<BertBase>);
static_assert(detail::role::Complete<AlbertBase>);
static_assert(detail::role::Complete<Gpt2Small>);
static_assert(detail::role::Complete<Ring<fp16>>);
static_assert(detail::role::Complete<MultiRing<4, fp16>>);
static_assert(detail::role::Complete<Bucketed<Ring<>, 1 << 20>>);
static_assert(detail::role::Complete<DoubleBuffered<Ring<>>>);
static_assert(detail::role::Complete<Constant>);
static_assert(detail::role::Complete<Cosine>);
static_assert(detail::role::Complete<OneCycle>);
static_assert(detail::role::Complete<PiecewiseLinear>);
static_assert(detail::role::Complete<StepDecay>);
static_assert(detail::role::Complete<LinearScaling<Constant>>);
static_assert(detail::role::Complete<Poly<2>>);
static_assert(detail::role::Complete<Warmup<Poly<2>>>);
static_assert(detail::role::Complete<Adam>);
static_assert(detail::role::Complete<AdamW>);
static_assert(detail::role::Complete<ClipByGlobalNorm<Lamb>>);
static_assert(detail::role::Complete<WeightAverage<Lamb>>);
static_assert(detail::role::Complete<Lamb>);
static_assert(detail::role::Complete<Lars>);
static_assert(detail::role::Complete<Sgd>);
static_assert(detail::role::Complete<InMemory<>>);
static_assert(detail::role::Complete<Prefetched<InMemory<>>>);
static_assert(detail::role::Complete<SyntheticLoader>);
