// AllReduce<E, Divide>: the mean by MPI's own all-reduce.
#pragma once

#include <concepts>  // same_as
#include <cstdint>   // int64_t
#include <optional>  // elsewhere
#include <span>      // buckets
#include <string>    // name

#include <gx/core/contract.hpp>               // GX_EXPECT
#include <gx/memory/buffer.hpp>               // Buffer
#include <gx/memory/kernels.hpp>              // EncodeScaled, DecodeScaled
#include <gx/memory/queue.hpp>                // Link, launch
#include <gx/reducer/collective_reducer.hpp>  // explain_wire
#include <gx/reducer/concept.hpp>             // ReduceReport
#include <gx/reducer/fwd.hpp>                 // DivideSplit
#include <gx/reducer/ring.hpp>                // Ring: elsewhere

namespace gx::mpi {

/// Mean over all ranks by one MPI_Iallreduce for each bucket, over elements E. In worlds without
/// MPI it is Ring<E, Divide>, so that the same type runs on threads and on a simulated cluster.
///
/// Wire:   MPI's choice; bytes_sent counts the bucket once, in elements E, and steps 1. fp16 and
///         bf16 are no types of MPI: they are summed by an operation of ours, in float and rounded
///         at each sum.
/// Order:  MPI's: another one with another version, rank count, length or setting. For bits that
///         repeat take Ring, or another reducer of gx.
/// Errors: as mpi::Transport's all_reduce; a bucket larger than reserved breaks the contract.
template <class E = fp32, class Divide = DivideSplit>
class AllReduce {
    static_assert(gx::detail::reducer::explain_wire<E, Divide>());

public:
    using wire_type = E;
    using divide = Divide;
    static constexpr int channels = 1;
    static constexpr int staleness = 0;
    static constexpr bool asynchronous = true;

    [[nodiscard]] static std::string name() {
        std::string text = "mpi::AllReduce<";
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
        constexpr bool is_native =
            requires(std::span<typename E::storage> v) { link.template all_reduce<E>(v); };
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

    template <class T>
    ReduceReport reduce(T& link, std::span<float> bucket) {
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
            const auto wire = wire_.template view<HostMemory>().first(bucket.size());
            launch(queue, kernels::EncodeScaled<E>{before}, std::span<const float>(bucket), wire);
            done = link.template all_reduce<E>(wire);
            launch(queue, kernels::DecodeScaled<E>{after}, std::span<const storage>(wire), bucket);
        }
        return {done, static_cast<std::int64_t>(bucket.size() * sizeof(storage)), 1};
    }

    ReducePlan plan_{};
    Buffer<storage> wire_;
    std::optional<Ring<E, Divide>> elsewhere_{};  ///< reserved by the first bucket
};

}  // namespace gx::mpi
