#include <gx/core/role.hpp>  // first, so the header is seen to stand alone

#include <gx/model/concept.hpp>       // archetypes
#include <gx/onednn/device.hpp>       // a device
#include <gx/trainer/loss_scale.hpp>  // loss scales
#include <gx/trainer/trainer.hpp>     // the policies of the core

#include <gx/loader/prefetch.hpp>
#include <gx/model/resnet.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/multi_ring.hpp>

#include <gtest/gtest.h>

namespace {

using namespace gx;
using detail::role::found;
using detail::role::may_be;
using detail::role::Role;

struct Incomplete;

// ---- What the type promises ---------------------------------------------------------
template <class T>
constexpr Role role = found<T, Role::none>();

static_assert(role<ResNet50> == Role::model && role<archetype::Model> == Role::model);
static_assert(role<MultiRing<4, fp16>> == Role::reducer);
static_assert(role<DoubleBuffered<Ring<fp32>>> == Role::reducer);
static_assert(role<archetype::Reducer> == Role::reducer);
static_assert(role<Warmup<Poly<2>>> == Role::scheduler);
static_assert(role<archetype::Scheduler> == Role::scheduler);
static_assert(role<Sgd> == Role::optimizer && role<archetype::Optimizer> == Role::optimizer);
static_assert(role<InMemory<>> == Role::loader && role<Prefetched<InMemory<>>> == Role::loader);
static_assert(role<archetype::Loader> == Role::loader);
static_assert(role<StaticLossScale> == Role::loss_scale);
static_assert(role<DynamicLossScale> == Role::loss_scale);
static_assert(role<StopOnLoss> == Role::survival && role<archetype::Survival> == Role::survival);
static_assert(role<Compute<bf16>> == Role::compute && role<Compute<fp32>> == Role::compute);
static_assert(role<fp16> == Role::element && role<bf16> == Role::element);
static_assert(role<int> == Role::none && role<ImageShape> == Role::none);
static_assert(role<onednn::Device> == Role::none, "a device has update(), and is no optimizer");

static_assert(may_be<ResNet50, Role::model>() && !may_be<ResNet50, Role::reducer>());
static_assert(may_be<int, Role::model>(), "what is of no role is told what it lacks");
static_assert(!may_be<Incomplete, Role::scheduler>());

/// Fits two roles: where either is expected it is taken for that.
struct Both : archetype::Scheduler {
    using wire_type = fp32;
    using archetype::Scheduler::Scheduler;
};
static_assert(may_be<Both, Role::scheduler>() && may_be<Both, Role::reducer>());

TEST(Role, IsDecidedWhileCompiling) { SUCCEED(); }

}  // namespace
