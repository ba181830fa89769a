// Bucketed<R, Bytes>: gradients reduced in buckets of a given number of bytes on the wire.
#pragma once

#include <algorithm>  // min
#include <cstdint>    // int64_t
#include <span>       // residual
#include <string>     // name

#include <gx/reflect/options_of.hpp>  // options_of
#include <gx/reducer/concept.hpp>     // explain_reducer
#include <gx/reducer/fwd.hpp>         // declared
#include <gx/reducer/name.hpp>        // reducer_name

namespace gx {

/// R, with at most BucketBytes of wire elements at once: a Pipeline cuts the gradient so, and
/// starts each bucket while the rest is still being computed. A longer one is cut from its front.
/// By default 25 MiB, as PyTorch's DistributedDataParallel (Li et al. 2020, arXiv:2006.15704).
///
/// Order:  as R; where buckets are cut changes the bits.
/// Errors: as R; stops at the first bucket that is incomplete.
template <class R, std::int64_t BucketBytes>
class Bucketed {
    static_assert(explain_reducer<R>());
    static_assert(BucketBytes >= static_cast<std::int64_t>(sizeof(typename R::wire_type::storage)),
                  "gx: a bucket smaller than an element can't carry a gradient: 'Bucketed' counts "
                  "bytes on the wire. Fix: give at least sizeof(wire_type::storage), "
                  "as in 'Bucketed<Ring<>, 4 << 20>'.");

    static_assert(!detail::reducer::ClaimsTheUpdate<R>,
                  "gx: Bucketed of a reducer that owns the update: that one has to know its "
                  "buckets. Fix: the other way about, as in 'Sharded<Bucketed<Ring<>, 4 << 20>>'.");

public:
    using wrapped = R;
    using wire_type = typename R::wire_type;
    static constexpr int channels = R::channels;
    static constexpr int staleness = R::staleness;
    static constexpr bool asynchronous = R::asynchronous;
    static constexpr bool repeats_work = RepeatsWork<R>;
    static constexpr std::int64_t bucket_bytes = BucketBytes;  ///< on the wire
    static constexpr std::int64_t bucket_elements =
        BucketBytes / static_cast<std::int64_t>(sizeof(typename R::wire_type::storage));

    using Options = options_of<R>;
    static constexpr auto check(const Options& o)
        requires requires { R::check(o); }
    {
        return R::check(o);
    }

    Bucketed() = default;
    explicit Bucketed(const Options& o) : inner_(make_policy<R>(o)) {}

    [[nodiscard]] static std::string name() {
        return "Bucketed<" + reducer_name<R>() + ", " + std::to_string(BucketBytes) + ">";
    }
    void reserve(ReducePlan plan) {
        plan.bucket_elements = std::min(plan.bucket_elements, bucket_elements);
        inner_.reserve(plan);
    }
    template <Link T>
    ReduceReport all_reduce(T& link, const BucketOn<T>& bucket) {
        constexpr auto most = static_cast<std::size_t>(bucket_elements);
        if (bucket.size() <= most) return inner_.all_reduce(link, bucket);
        ReduceReport sum;
        const int parts = static_cast<int>((bucket.size() + most - 1) / most);
        for (std::size_t i = 0; i < bucket.size() && sum.complete(); i += most) {
            BucketOn<T> part = bucket.part(i, std::min(most, bucket.size() - i));
            part.index = bucket.index * parts + static_cast<int>(i / most);
            part.count = bucket.count * parts;
            const ReduceReport done = inner_.all_reduce(link, part);
            sum = {done.delivery, sum.bytes_sent + done.bytes_sent, sum.steps + done.steps};
        }
        return sum;
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
