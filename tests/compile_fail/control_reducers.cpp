// The right spelling of each reducer that the neighbours spell wrongly: they must compile.
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/reducer/ring.hpp>

using gx::MultiRing, gx::Ring, gx::DoubleBuffered, gx::Bucketed, gx::fp16;

/// Hands its bucket on whole, by value or not.
template <class Bucket>
struct Forwards : Ring<fp16> {
    gx::ReduceReport all_reduce(gx::Transport auto& link, Bucket bucket) {
        return Ring::all_reduce(link, bucket);
    }
};
static_assert(gx::explain_reducer<Forwards<gx::Bucket>>());
static_assert(gx::explain_reducer<Forwards<const gx::Bucket&>>());
static_assert(!gx::Reducer<Forwards<std::span<float>>>);
static_assert(!gx::Reducer<Forwards<const std::span<float>&>>);
static_assert(gx::explain_reducer<Ring<fp16>>());
static_assert(gx::explain_reducer<MultiRing<1, fp16>>());
static_assert(gx::explain_reducer<DoubleBuffered<MultiRing<4, fp16>>>());
static_assert(gx::explain_reducer<Bucketed<Ring<fp16>, 2>>());
