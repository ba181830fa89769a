// DoubleBuffered<R>: reduces one step's gradient behind the next step's computation.
#pragma once

#include <cstdint>  // int64_t
#include <span>     // residual
#include <string>   // name

#include <gx/reflect/options_of.hpp>  // options_of
#include <gx/reducer/concept.hpp>     // explain_reducer
#include <gx/reducer/fwd.hpp>         // declared
#include <gx/reducer/name.hpp>        // reducer_name

namespace gx {

/// R, one step later: step t applies the mean of step t - 1. The delay itself is kept by Pipeline,
/// which holds `staleness` + 1 gradients; nesting it adds up.
///
/// Order: the mean of every step is applied, in order, each once. Step 0 applies nothing, and the
///        last mean is applied after the last step: N steps make N updates.
///        ChainerMN's double buffering makes N - 2 of N: its first call broadcasts parameters and
///        discards the gradient, and the mean of the last call is never applied.
/// Cost:  at the end of an epoch the Trainer waits for the gradient in flight, which the next
///        epoch's first step applies: one all-reduce an epoch is exposed.
/// Source: ChainerMN v1.3, chainermn/optimizers.py.
template <class R>
class DoubleBuffered {
    static_assert(explain_reducer<R>());
    static_assert(
        R::asynchronous,
        "gx: DoubleBuffered needs a reducer that can run beside the computation, and this "
        "one says 'asynchronous = false'. Fix: use it without DoubleBuffered, or make "
        "it asynchronous.");

    static_assert(
        !detail::reducer::ClaimsTheUpdate<R>,
        "gx: DoubleBuffered of a reducer that owns the update: the next step would be computed on "
        "parameters that the ranks have not exchanged yet. Fix: use it without DoubleBuffered.");

public:
    using wrapped = R;
    using wire_type = typename R::wire_type;
    static constexpr int channels = R::channels;
    static constexpr int staleness = R::staleness + 1;
    static constexpr bool asynchronous = true;
    static constexpr bool repeats_work = RepeatsWork<R>;
    static constexpr std::int64_t bucket_elements = [] {  ///< 0: as many as there are
        if constexpr (requires { R::bucket_elements; }) return std::int64_t{R::bucket_elements};
        else return std::int64_t{0};
    }();

    using Options = options_of<R>;
    static constexpr auto check(const Options& o)
        requires requires { R::check(o); }
    {
        return R::check(o);
    }

    DoubleBuffered() = default;
    explicit DoubleBuffered(const Options& o) : inner_(make_policy<R>(o)) {}

    [[nodiscard]] static std::string name() { return "DoubleBuffered<" + reducer_name<R>() + ">"; }
    void reserve(const ReducePlan& plan) { inner_.reserve(plan); }
    template <Link T>
    ReduceReport all_reduce(T& link, const BucketOn<T>& bucket) {
        return inner_.all_reduce(link, bucket);
    }
    void settle(std::uint64_t gradient, bool applied)
        requires Settles<R>
    {
        inner_.settle(gradient, applied);
    }
    template <class Q>
        requires SettlesOn<R, Q>
    void settle_on(Q& queue, std::uint64_t gradient, ScalarIn<Flag, memory_of<Q>> applied) {
        inner_.settle_on(queue, gradient, applied);
    }
    StateList unsettled()
        requires ShowsUnsettled<R>
    {
        return inner_.unsettled();
    }
    StateList state() { return inner_.state(); }
    std::span<const float> residual()
        requires requires(R& r) { r.residual(); }
    {
        return inner_.residual();
    }

private:
    R inner_;
};

}  // namespace gx
