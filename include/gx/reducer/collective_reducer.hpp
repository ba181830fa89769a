// CollectiveReducer: base class of reducers that run K collectives at once.
#pragma once

#include <algorithm>    // max, min
#include <array>        // K flows
#include <concepts>     // same_as
#include <cstdint>      // int64_t
#include <optional>     // before reserve()
#include <span>         // bucket
#include <string>       // names
#include <string_view>  // broken contracts
#include <type_traits>  // type_identity
#include <utility>      // declval, integer_sequence

#include <gx/collective/execute.hpp>        // execute
#include <gx/collective/fused_scaling.hpp>  // FusedScaling
#include <gx/collective/proof.hpp>          // prove_all_reduce
#include <gx/core/transport.hpp>            // working_on_part
#include <gx/memory/buffer.hpp>             // Buffer
#include <gx/memory/kernels.hpp>            // EncodeScaled, DecodeScaled
#include <gx/memory/queue.hpp>              // launch
#include <gx/reducer/concept.hpp>           // ReduceReport
#include <gx/reducer/divide.hpp>            // DividePolicy

namespace gx {

/// Bytes that a reducer's kernels read and write for each element of a bucket. Of casts and
/// scalings, beside its collectives; for what times it without data. See traffic_bytes().
struct KernelTraffic {
    int before = 0, after = 0;  ///< the collectives; 0: there is no kernel
};

}  // namespace gx

namespace gx::detail::reducer {

template <class E, class Divide>
consteval bool explain_wire() {
    static_assert(Element<E>,
                  "gx: the wire of a reducer is not an Element: messages are made of fp32, fp16 or "
                  "bf16. Fix: name one, as in 'Ring<gx::fp16>'.");
    static_assert(
        DividePolicy<Divide>,
        "gx: a reducer does not know where to divide: its policy lacks 'static float "
        "before(int ranks)', 'after(int ranks)' or 'name'. "
        "Fix: use DivideSplit, DivideAfter or DivideBefore, or add them; of Hierarchical, "
        "name two reducers, or an Element alone.");
    return Element<E> && DividePolicy<Divide>;
}

/// What a Mean executes: `count` collectives, made for a placement.
template <class P>
concept Plan = requires {
    requires P::count >= 1;
    { P::make(Placement{}, int{}) } -> Collective;
};

/// Plan of a reducer, or of the reducer it wraps; void if neither has one.
template <class R>
consteval auto plan_of() {
    if constexpr (requires { typename R::plan; }) return std::type_identity<typename R::plan>{};
    else if constexpr (requires { typename R::wrapped; }) return plan_of<typename R::wrapped>();
    else return std::type_identity<void>{};
}

/// Traffic of the kernels of a Mean over E.
template <Element E, DividePolicy Divide>
[[nodiscard]] constexpr KernelTraffic kernel_traffic(int ranks) {
    constexpr int cast = sizeof(float) + sizeof(typename E::storage);
    const bool in_place = std::same_as<E, fp32>;
    return {in_place && Divide::before(ranks) == 1.0f ? 0 : cast,
            in_place && Divide::after(ranks) == 1.0f ? 0 : cast};
}

/// The mean of a bucket in K contiguous parts, cut like chunks. Part k is summed by collective k on
/// channel k.
///
///     wire[i] = E::encode(bucket[i] * Divide::before(n))     at the start
///     wire[i] = E::encode(mine + received)                   at every adding step, sum in float
///     bucket[i] = E::decode(wire[i]) * Divide::after(n)      at the end, on every rank alike
///
/// With fp32 the wire is the bucket itself, without a copy.
template <Plan P, Element E, DividePolicy Divide>
class Mean {
    static constexpr int K = P::count;
    using Collective = decltype(P::make(Placement{}, 0));

public:
    void reserve(const ReducePlan& plan) {
        const Placement placement = plan.placement;
        const std::int64_t elements = plan.bucket_elements;
        GX_EXPECT(elements >= 0, "a bucket has at least 0 elements");
        placement_ = placement;
        elements_ = elements;
        for (int k = 0; k < K; ++k) {
            const Collective& c = collectives_[index(k)].emplace(P::make(placement, k));
            const std::int64_t part = chunk_range(elements, K, k).size();
            message_ = std::max(
                message_, chunk_range(part, c.chunks(), 0, collective::message_chunks(c)).size());
            if (placement.ranks() > collective::ranks_proved_at_start) continue;
            const auto proof = collective::prove_all_reduce(c);
            GX_EXPECT(proof.holds(), proof.sentence());
        }
        if constexpr (in_place) {
            fuses_ = placement.ranks() <= collective::ranks_proved_at_start && !factors().are_one();
            for (int k = 0; fuses_ && k < K; ++k) {
                fuses_ = collective::FusedScaling::yields_mean(*collectives_[index(k)]);
                scaling_[index(k)].reserve(*collectives_[index(k)]);
            }
        }
        scratch_ = {plan.memory, placement.ranks() > 1 ? message_ * K : 0, "ring scratch"};
        if constexpr (!in_place) wire_ = {plan.memory, elements, "wire"};
    }

    template <Link T>
    ReduceReport all_reduce(T& link, ViewIn<float, memory_of<T>> bucket) {
        using M = memory_of<T>;
        GX_EXPECT(link.placement() == placement_, "reserve() for the placement it will run on");
        const auto count = static_cast<std::int64_t>(bucket.size());
        GX_EXPECT(count <= elements_, "a bucket larger than was reserved");
        if constexpr (in_place && on_host<T>) {
            if (fuses_) {
                const collective::Execution done = collective::execute(
                    link, flows<HostMemory>(bucket), collective::Scaled{scaling_, factors()});
                return {done.delivery, done.bytes_sent, done.steps};
            }
        }
        working_on_part(link, in_place ? "" : "MEMCPY_IN_FUSION_BUFFER");
        const auto wire = pack(link, bucket);
        working_on_part(link, "");
        const collective::Execution done = collective::execute(link, flows<M>(wire));
        if (done.delivery.complete()) {
            working_on_part(link, in_place ? "" : "MEMCPY_OUT_FUSION_BUFFER");
            unpack(link, wire, bucket);
            working_on_part(link, "");
        }
        return {done.delivery, done.bytes_sent, done.steps};
    }

private:
    using storage = typename E::storage;
    static constexpr bool in_place = std::same_as<E, fp32>;
    /// Kernels are no work that a queue orders or charges.
    template <class T>
    static constexpr bool on_host =
        std::same_as<std::remove_cvref_t<decltype(queue_of(std::declval<T&>()))>, HostQueue>;
    static constexpr std::size_t index(int k) { return static_cast<std::size_t>(k); }

    [[nodiscard]] collective::MeanFactors factors() const {
        return {Divide::before(placement_.ranks()), Divide::after(placement_.ranks())};
    }
    template <class T, class M = memory_of<T>>
    ViewIn<storage, M> pack(T& link, ViewIn<float, M> bucket) {
        const float factor = Divide::before(placement_.ranks());
        if constexpr (in_place) {
            if (factor != 1.0f) launch(queue_of(link), kernels::Scale{factor}, bucket);
            return bucket;
        } else {
            const auto wire = wire_.template view<M>().first(bucket.size());
            launch(queue_of(link), kernels::EncodeScaled<E>{factor}, ViewIn<const float, M>(bucket),
                   wire);
            return wire;
        }
    }
    template <class T, class M = memory_of<T>>
    void unpack(T& link, ViewIn<storage, M> wire, ViewIn<float, M> bucket) {
        const float factor = Divide::after(placement_.ranks());
        if constexpr (in_place) {
            if (factor != 1.0f) launch(queue_of(link), kernels::Scale{factor}, bucket);
        } else {
            launch(queue_of(link), kernels::DecodeScaled<E>{factor}, ViewIn<const storage, M>(wire),
                   bucket);
        }
    }
    template <class M>
    std::array<collective::Flow<E, Collective, M>, index(K)> flows(ViewIn<storage, M> wire) {
        return [&]<int... k>(std::integer_sequence<int, k...>) {
            return std::array<collective::Flow<E, Collective, M>, index(K)>{flow<M>(wire, k)...};
        }(std::make_integer_sequence<int, K>{});
    }
    template <class M>
    collective::Flow<E, Collective, M> flow(ViewIn<storage, M> wire, int k) {
        const auto part = chunk_range(static_cast<std::int64_t>(wire.size()), K, k);
        const auto scratch = scratch_.size() / index(K);
        return {*collectives_[index(k)],
                wire.subspan(static_cast<std::size_t>(part.begin),
                             static_cast<std::size_t>(part.size())),
                scratch_.template view<M>().subspan(index(k) * scratch, scratch), k};
    }

    Placement placement_{0, 0};
    std::int64_t elements_ = 0;
    std::int64_t message_ = 0;
    std::array<std::optional<Collective>, static_cast<std::size_t>(K)> collectives_;
    bool fuses_ = false;  ///< factors into the collectives, on the host
    std::array<collective::FusedScaling, static_cast<std::size_t>(in_place ? K : 0)> scaling_{};
    Buffer<storage> wire_;
    Buffer<storage> scratch_;
};

}  // namespace gx::detail::reducer

namespace gx {

/// Stateless reducer that executes plan P over element E; derived classes add name().
/// A plan has `static constexpr int count`, the number of collectives at once, and
/// `static make(Placement, int k)`, the k-th of them for a placement.
template <class P, class E, class Divide>
class CollectiveReducer {
    static_assert(detail::reducer::explain_wire<E, Divide>());

public:
    using wire_type = E;
    using plan = P;         ///< what it executes
    using divide = Divide;  ///< where its sums become means
    static constexpr int channels = P::count;
    static constexpr int staleness = 0;
    static constexpr bool asynchronous = true;
    static constexpr bool repeats_work = true;
    [[nodiscard]] static constexpr KernelTraffic kernel_traffic(int ranks) {
        return detail::reducer::kernel_traffic<E, Divide>(ranks);
    }

    void reserve(const ReducePlan& p) { mean_.reserve(p); }
    template <Link T>
    ReduceReport all_reduce(T& link, const BucketOn<T>& bucket) {
        return mean_.all_reduce(link, bucket.values);
    }
    StateList state() { return {}; }

protected:
    /// 'Ring<' as 'Ring<fp16>' or, where Divide is not the default, 'Ring<fp16, DivideAfter>'.
    [[nodiscard]] static std::string spelled(std::string name) {
        name += E::name;
        if constexpr (!std::same_as<Divide, DivideSplit>) name.append(", ").append(Divide::name);
        return name + ">";
    }

private:
    detail::reducer::Mean<P, E, Divide> mean_;
};

}  // namespace gx
