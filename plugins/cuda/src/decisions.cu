// Decisions of a step: the trainer's kernels, on one value each.
#include <gx/cuda/kernels.hpp>

#include <span>  // what they are called with

#include <gx/core/contract.hpp>           // GX_EXPECT
#include <gx/cuda/kernel.hpp>             // GX_KERNEL, launch
#include <gx/trainer/loss_scale.hpp>      // StaticLossScale, DynamicLossScale
#include <gx/trainer/rank/decisions.hpp>  // BeginStep, decide, RecordOutcome

namespace gx::cuda {
namespace {

namespace trainer = gx::detail::trainer;

template <class D>
GX_KERNEL begin_step_kernel(trainer::BeginStep<D> begin, DeviceSpan<D> decisions,
                            DeviceSpan<float> scale) {
    begin(std::span<D>(&decisions[0], 1), std::span<float>(&scale[0], 1));
}
template <class D>
GX_KERNEL decide_kernel(DeviceSpan<D> decisions, DeviceSpan<Flag> finite) {
    trainer::decide(decisions[0], finite[0] != 0);
    finite[0] = decisions[0].applied;
}
template <class D>
GX_KERNEL outcome_kernel(DeviceSpan<const D> decisions, DeviceSpan<const float> scale,
                         DeviceSpan<const ForwardReport> reports,
                         DeviceSpan<trainer::Outcome> out) {
    ForwardReport sum;
    for (std::int64_t i = 0; i < reports.size; ++i) sum += reports[i];
    trainer::RecordOutcome<D>{}(std::span<const D>(&decisions[0], 1), scale[0],
                                std::span<const ForwardReport>(&sum, 1),
                                std::span<trainer::Outcome>(&out[0], 1));
}

template <class... T>
void expect_one(const DeviceSpan<T>&... spans) {
    GX_EXPECT((... && (spans.size == 1)), "a decision works on one value of each kind");
}

}  // namespace

template <class D>
void begin_step(cudaStream_t stream, float ranks, float of_all, DeviceSpan<D> decisions,
                DeviceSpan<float> scale) {
    expect_one(decisions, scale);
    launch("begin step", {1, 1, stream}, begin_step_kernel<D>, trainer::BeginStep<D>{ranks, of_all},
           decisions, scale);
}
template <class D>
void decide(cudaStream_t stream, DeviceSpan<D> decisions, DeviceSpan<Flag> finite) {
    expect_one(decisions, finite);
    launch("decide", {1, 1, stream}, decide_kernel<D>, decisions, finite);
}
template <class D, class Outcome>
void record_outcome(cudaStream_t stream, DeviceSpan<const D> decisions,
                    DeviceSpan<const float> scale, DeviceSpan<const ForwardReport> reports,
                    DeviceSpan<Outcome> out) {
    expect_one(decisions, scale, out);
    launch("outcome", {1, 1, stream}, outcome_kernel<D>, decisions, scale, reports, out);
}

#define GX_DECISIONS_OF(S)                                                                   \
    template void begin_step(cudaStream_t, float, float, DeviceSpan<trainer::Decisions<S>>,  \
                             DeviceSpan<float>);                                             \
    template void decide(cudaStream_t, DeviceSpan<trainer::Decisions<S>>, DeviceSpan<Flag>); \
    template void record_outcome(cudaStream_t, DeviceSpan<const trainer::Decisions<S>>,      \
                                 DeviceSpan<const float>, DeviceSpan<const ForwardReport>,   \
                                 DeviceSpan<trainer::Outcome>);
GX_DECISIONS_OF(StaticLossScale)
GX_DECISIONS_OF(DynamicLossScale)

}  // namespace gx::cuda
