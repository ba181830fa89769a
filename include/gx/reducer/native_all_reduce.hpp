// NativeAllReduce: base class of reducers that are one call of the transport's own all-reduce.
#pragma once

#include <concepts>  // same_as
#include <cstdint>   // int64_t
#include <optional>  // elsewhere
#include <string>    // names

#include <gx/core/contract.hpp>               // GX_EXPECT
#include <gx/memory/buffer.hpp>               // Buffer
#include <gx/memory/kernels.hpp>              // EncodeScaled, DecodeScaled
#include <gx/memory/queue.hpp>                // Link, launch
#include <gx/reducer/collective_reducer.hpp>  // explain_wire
#include <gx/reducer/concept.hpp>             // ReduceReport
#include <gx/reducer/divide.hpp>              // DivideSplit
#include <gx/reducer/ring.hpp>                // Ring: elsewhere

namespace gx {

/// Mean over all ranks by `link.template all_reduce<E>(values)`, the sum of a library, one for each
/// bucket; in worlds whose transport has none it is Ring<E, Divide>. Derived classes add name().
/// all_reduce returns a Delivery.
///
///     wire[i] = E::encode(bucket[i] * Divide::before(n))
///     bucket[i] = E::decode(sum[i]) * Divide::after(n)
///
/// With fp32 the wire is the bucket itself, without a copy.
/// Wire:   the library's choice; bytes_sent counts the bucket once, in elements E, and steps 1.
/// Order:  the library's.
/// Errors: as the transport's all_reduce; a bucket larger than reserved breaks the contract.
template <class E, class Divide>
class NativeAllReduce {
    static_assert(detail::reducer::explain_wire<E, Divide>());

public:
    using wire_type = E;
    using divide = Divide;
    static constexpr int channels = 1;
    static constexpr int staleness = 0;
    static constexpr bool asynchronous = true;
    static constexpr bool repeats_work = true;

    void reserve(const ReducePlan& plan) {
        plan_ = plan;
        if constexpr (!in_place) wire_ = {plan.memory, plan.bucket_elements, "wire"};
    }

    template <Link T>
    ReduceReport all_reduce(T& link, const BucketOn<T>& bucket) {
        constexpr bool is_native =
            requires(ViewIn<storage, memory_of<T>> v) { link.template all_reduce<E>(v); };
        if constexpr (is_native) {
            return reduce(link, bucket.values);
        } else {
            if (!elsewhere_) elsewhere_.emplace().reserve(plan_);
            return elsewhere_->all_reduce(link, bucket);
        }
    }
    StateList state() { return {}; }

protected:
    /// 'mpi::AllReduce<' as 'mpi::AllReduce<fp16>', as CollectiveReducer's.
    [[nodiscard]] static std::string spelled(std::string name) {
        name += E::name;
        if constexpr (!std::same_as<Divide, DivideSplit>) name.append(", ").append(Divide::name);
        return name + ">";
    }

private:
    using storage = typename E::storage;
    static constexpr bool in_place = std::same_as<E, fp32>;

    template <class T, class M = memory_of<T>>
    ReduceReport reduce(T& link, ViewIn<float, M> bucket) {
        GX_EXPECT(static_cast<std::int64_t>(bucket.size()) <= plan_.bucket_elements,
                  "a bucket larger than was reserved");
        const float before = Divide::before(link.ranks()), after = Divide::after(link.ranks());
        auto&& queue = queue_of(link);
        Delivery done;
        if constexpr (in_place) {
            if (before != 1.0f) launch(queue, kernels::Scale{before}, bucket);
            done = link.template all_reduce<E>(bucket);
            if (after != 1.0f) launch(queue, kernels::Scale{after}, bucket);
        } else {
            const auto wire = wire_.template view<M>().first(bucket.size());
            launch(queue, kernels::EncodeScaled<E>{before}, ViewIn<const float, M>(bucket), wire);
            done = link.template all_reduce<E>(wire);
            launch(queue, kernels::DecodeScaled<E>{after}, ViewIn<const storage, M>(wire), bucket);
        }
        return {done, static_cast<std::int64_t>(bucket.size() * sizeof(storage)), 1};
    }

    ReducePlan plan_{};
    Buffer<storage> wire_;
    std::optional<Ring<E, Divide>> elsewhere_{};  ///< reserved by the first bucket
};

}  // namespace gx
