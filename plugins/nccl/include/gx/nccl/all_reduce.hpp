// AllReduce<E, Divide>: the mean by NCCL's own all-reduce.
#pragma once

#include <algorithm>  // max
#include <concepts>   // same_as
#include <cstdint>    // int64_t
#include <optional>   // elsewhere
#include <string>     // name

#include <gx/memory/buffer.hpp>               // Buffer
#include <gx/memory/kernels.hpp>              // EncodeScaled, DecodeScaled
#include <gx/memory/queue.hpp>                // Link, launch
#include <gx/reducer/collective_reducer.hpp>  // explain_wire
#include <gx/reducer/concept.hpp>             // ReduceReport
#include <gx/reducer/fwd.hpp>                 // DivideSplit
#include <gx/reducer/ring.hpp>                // Ring: elsewhere

namespace gx::nccl {

/// Mean over all ranks by one ncclAllReduce for each bucket, over elements E. In worlds without
/// NCCL it is Ring<E, Divide>, so that the same type runs on a simulated cluster.
///
/// Wire:   NCCL's choice; bytes_sent counts the bucket once, in elements E, and steps 1.
/// Order:  NCCL's: another one with another version, topology, rank count or setting. All ranks end
///         bitwise equal; nothing else repeats. For bits that repeat take Ring or MultiRing.
/// Errors: as nccl::Transport's; a bucket larger than reserved breaks the contract.
template <class E = fp32, class Divide = DivideSplit>
class AllReduce {
    static_assert(gx::detail::reducer::explain_wire<E, Divide>());

public:
    using wire_type = E;
    using divide = Divide;
    static constexpr int channels = 1;
    static constexpr int staleness = 0;
    static constexpr bool asynchronous = true;
    static constexpr bool repeats_work = true;

    [[nodiscard]] static std::string name() {
        std::string text = "nccl::AllReduce<";
        text += E::name;
        if constexpr (!std::same_as<Divide, DivideSplit>) text.append(", ").append(Divide::name);
        return text + ">";
    }

    void reserve(const ReducePlan& plan) {
        plan_ = plan;
        if constexpr (!in_place) wire_ = {plan.memory, plan.bucket_elements, "wire"};
    }

    template <Link T>
    ReduceReport all_reduce(T& link, const BucketOn<T>& bucket) {
        constexpr bool is_native = requires(ViewIn<typename E::storage, memory_of<T>> v) {
            link.template all_reduce<E>(v);
        };
        if constexpr (is_native) {
            return reduce(link, bucket.values);
        } else {
            if (!elsewhere_) elsewhere_.emplace().reserve(plan_);
            return elsewhere_->all_reduce(link, bucket);
        }
    }
    StateList state() { return {}; }

private:
    using storage = typename E::storage;
    static constexpr bool in_place = std::same_as<E, fp32>;

    template <class T, class M = memory_of<T>>
    ReduceReport reduce(T& link, ViewIn<float, M> bucket) {
        GX_EXPECT(static_cast<std::int64_t>(bucket.size()) <= plan_.bucket_elements,
                  "a bucket larger than was reserved");
        const float before = Divide::before(link.ranks()), after = Divide::after(link.ranks());
        if constexpr (in_place) {
            if (before != 1.0f) launch(link.queue(), kernels::Scale{before}, bucket);
            link.template all_reduce<E>(bucket);
            if (after != 1.0f) launch(link.queue(), kernels::Scale{after}, bucket);
        } else {
            const auto wire = wire_.template view<M>().first(bucket.size());
            launch(link.queue(), kernels::EncodeScaled<E>{before}, ViewIn<const float, M>(bucket),
                   wire);
            link.template all_reduce<E>(wire);
            launch(link.queue(), kernels::DecodeScaled<E>{after}, ViewIn<const storage, M>(wire),
                   bucket);
        }
        return {{}, static_cast<std::int64_t>(bucket.size() * sizeof(storage)), 1};
    }

    ReducePlan plan_{};
    Buffer<storage> wire_;
    std::optional<Ring<E, Divide>> elsewhere_{};  ///< reserved by the first bucket
};

}  // namespace gx::nccl
