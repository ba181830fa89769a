// Sharded<R>: each rank updates a shard of the parameters, and keeps its optimizer state.
#pragma once

#include <algorithm>    // max, min, sort
#include <array>        // flows
#include <concepts>     // same_as
#include <cstdint>      // int64_t
#include <optional>     // before reserve()
#include <span>         // buckets
#include <string>       // name
#include <type_traits>  // remove_cvref_t
#include <utility>      // integer_sequence
#include <vector>       // parts

#include <gx/collective/execute.hpp>          // execute
#include <gx/core/contract.hpp>               // GX_EXPECT
#include <gx/core/transport.hpp>              // working_on_part
#include <gx/memory/buffer.hpp>               // Buffer
#include <gx/memory/kernels.hpp>              // EncodeScaled, DecodeScaled
#include <gx/memory/queue.hpp>                // launch, queue_of, Link
#include <gx/reducer/accuracy.hpp>            // accuracy
#include <gx/reducer/concept.hpp>             // explain_reducer, OwnedUpdate
#include <gx/reducer/collective_reducer.hpp>  // plan_of
#include <gx/reducer/name.hpp>                // reducer_name
#include <gx/reflect/options_of.hpp>          // options_of

namespace gx {

namespace detail::sharded {

/// A plan of all-reduces that have two halves.
template <class P>
concept Halves = reducer::Plan<P> && requires {
    requires PromisingCollective<
        std::remove_cvref_t<decltype(P::make(Placement{}, 0).reduce_scatter())>>;
    requires PromisingCollective<
        std::remove_cvref_t<decltype(P::make(Placement{}, 0).all_gather())>>;
};
template <class R>
using plan = typename decltype(reducer::plan_of<R>())::type;

/// Where R, or the reducer it wraps, divides.
template <class R>
struct Divide {
    using type = typename Divide<typename R::wrapped>::type;
};
template <class R>
    requires requires { typename R::divide; }
struct Divide<R> {
    using type = typename R::divide;
};

template <class R>
consteval bool explain() {
    static_assert(explain_reducer<R>());
    static_assert(!reducer::ClaimsTheUpdate<R>,
                  "gx: Sharded of a reducer that owns the update already: one of them can own it. "
                  "Fix: use one of the two.");
    static_assert(R::staleness == 0,
                  "gx: Sharded of a reducer with stale gradients: a step would be computed on "
                  "parameters that the "
                  "ranks have not exchanged yet. Fix: Sharded of the reducer without "
                  "DoubleBuffered.");
    static_assert(Halves<plan<R>>,
                  "gx: Sharded needs a reducer that is a reduce-scatter and an all-gather: between "
                  "these each rank updates its shard. Fix: use Ring or MultiRing, also in "
                  "Bucketed; or give the plan's collective 'reduce_scatter()' and 'all_gather()'.");
    return true;
}

}  // namespace detail::sharded

/// R, of which a Trainer runs the halves with the update in between. Of each bucket, in as many
/// contiguous parts as R has collectives, cut like chunks, a rank owns the chunk that R's
/// reduce-scatter leaves on it, and
///
///     the reduce-scatter of R gives it the mean of that chunk         beside the backward pass
///     the ranks decide together whether the step is applied
///     the optimizer updates the parameters of these chunks, and of them alone
///     an all-gather in fp32 gives all ranks all parameters            before the next step
///
/// The mean that the owner applies is rounded as R rounds it for all ranks, so the weights are
/// those of R bit for bit: with any optimizer that is Elementwise, and with one that AddsNorms
/// (Lars), whose norms are summed over the ranks exactly, wherever shards are cut.
///
/// Without a Trainer it is R.
///
/// Wire:   (n - 1) / n of the bucket in E and as much of the parameters in fp32, sent by each rank,
///         in (n - 1) steps each; 2 ceil(log2 n) messages of 4 bytes to decide on a step. Beside
///         that, with an optimizer that AddsNorms, the norms of all parameters, n - 1 times. A step
///         that is skipped ends with the decision; in the memory of a device it sends all of this.
/// Order:  as R.
/// Errors: as R; an exchange that is incomplete names the missing rank. In the memory of a device
///         the host learns of it when it reads the step's outcome. ContinueOnSurvivors goes back to
///         the newest checkpoint, and each rank that is left gets a part of 1 / n of now.
/// Memory: also that of a device. The reduce-scatter is queued as gradients become ready, the
///         decision, the norms and the all-gather on the same queue: no step waits for the host.
/// Cost:   the optimizer's state, and its time, of 1 / n of the parameters, about; the bucket in E,
///         unless E is fp32; the shard's parameters and gradients, copied together, unless they
///         are in one piece: on a device, four kernels for each piece. A checkpoint gathers the
///         state on rank 0's host: it is that of R, and any number of ranks resumes from it.
/// Source: Rajbhandari et al. 2020, "ZeRO", arXiv:1910.02054, stage 1; Xu et al. 2020, "Automatic
///         cross-replica sharding of weight update", arXiv:2004.13336.
template <class R>
class Sharded {
    static_assert(detail::sharded::explain<R>());
    using P = detail::sharded::plan<R>;
    using E = typename R::wire_type;
    using Divide = typename detail::sharded::Divide<R>::type;
    using Whole = decltype(P::make(Placement{}, 0));
    using Scatter = std::remove_cvref_t<decltype(std::declval<Whole>().reduce_scatter())>;
    using Gather = std::remove_cvref_t<decltype(std::declval<Whole>().all_gather())>;
    static constexpr int K = P::count;

public:
    using wire_type = E;
    using halves = P;  ///< that run apart, for what times it without data
    static constexpr UpdateOwnership owns_update{.in_parts = true};
    static constexpr int channels = R::channels;
    static constexpr int staleness = 0;
    static constexpr bool asynchronous = R::asynchronous;
    static constexpr bool repeats_work = RepeatsWork<R>;
    static constexpr Accuracy accuracy = gx::accuracy<R>();
    /// The traffic after the reduce-scatter is that of a rank's own chunks alone.
    [[nodiscard]] static constexpr KernelTraffic kernel_traffic(int ranks) {
        return detail::reducer::kernel_traffic<E, Divide>(ranks);
    }
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

    Sharded() = default;
    explicit Sharded(const Options& o) : options_(o), inner_(make_policy<R>(o)) {}

    [[nodiscard]] static std::string name() { return "Sharded<" + reducer_name<R>() + ">"; }
    void reserve(const ReducePlan& plan) {
        plan_ = plan;
        for (int k = 0; k < K; ++k) all_[index(k)].emplace(P::make(plan.placement, k));
        inner_.reserve(plan);
    }
    template <Link T>
    ReduceReport all_reduce(T& link, const BucketOn<T>& bucket) {
        if (!owns_) return inner_.all_reduce(link, bucket);
        GX_EXPECT(link.placement() == plan_.placement,
                  "reserve() for the placement it will run on");
        const auto count = static_cast<std::int64_t>(bucket.size());
        GX_EXPECT(count <= plan_.bucket_elements, "a bucket larger than was reserved");
        ReduceReport sum;
        for_each_piece(0, count, [&](std::int64_t begin, std::int64_t end) {
            if (!sum.complete()) return;
            const ReduceReport done =
                scatter(link, bucket.values.subspan(static_cast<std::size_t>(begin),
                                                    static_cast<std::size_t>(end - begin)));
            sum = {done.delivery, sum.bytes_sent + done.bytes_sent, sum.steps + done.steps};
        });
        return sum;
    }
    StateList state() { return inner_.state(); }

    // ---- The update ------------------------------------------------------------------------
    [[nodiscard]] std::vector<ChunkRange> updated_by(int rank) const {
        std::vector<ChunkRange> parts;
        for_each_bucket([&](std::int64_t bucket, std::int64_t end) {
            for_each_piece(bucket, end, [&](std::int64_t begin, std::int64_t to) {
                for (int k = 0; k < K; ++k) {
                    const ChunkRange mine = owned(k, to - begin, rank);
                    if (mine.size() > 0) parts.push_back({begin + mine.begin, begin + mine.end});
                }
            });
        });
        std::ranges::sort(parts, {}, &ChunkRange::begin);
        return parts;
    }
    void own_update(int rank, std::span<float>) { own(rank); }
    void own_update(int rank, Buffer<float>&) { own(rank); }
    template <Link T>
    ReduceReport updated(T& link, const OwnedUpdateIn<memory_of<T>>& made) {
        using M = memory_of<T>;
        ReduceReport sum;
        if (!made.applied) return sum;  // on no rank
        made.change([&](ViewIn<float, M> parameters) {
            for_each_bucket([&](std::int64_t bucket, std::int64_t end) {
                for_each_piece(bucket, end, [&](std::int64_t begin, std::int64_t to) {
                    if (!sum.complete()) return;
                    const auto piece = parameters.subspan(static_cast<std::size_t>(begin),
                                                          static_cast<std::size_t>(to - begin));
                    const auto done =
                        collective::execute(link, flows<fp32, Gather, M>(piece, [&](int k) {
                                                return collective::Flow<fp32, Gather, M>{
                                                    all_[index(k)]->all_gather(), {}, {}, k};
                                            }));
                    sum = {done.delivery, sum.bytes_sent + done.bytes_sent, sum.steps + done.steps};
                });
            });
        });
        return sum;
    }

private:
    using storage = typename E::storage;
    static constexpr bool in_place = std::same_as<E, fp32>;
    static constexpr std::size_t index(int k) { return static_cast<std::size_t>(k); }

    /// What only the whole all-reduce needs is released.
    void own(int rank) {
        GX_EXPECT(rank >= 0 && rank < plan_.placement.ranks(), "a rank of the reserved placement");
        owns_ = true;
        inner_ = make_policy<R>(options_);
        const std::int64_t longest = std::min(plan_.bucket_elements, most());
        for (int k = 0; k < K; ++k)
            message_ =
                std::max(message_, collective::scratch_elements(all_[index(k)]->reduce_scatter(),
                                                                chunk_range(longest, K, k).size()));
        scratch_ = {plan_.memory, plan_.placement.ranks() > 1 ? message_ * K : 0, "ring scratch"};
        if constexpr (!in_place) wire_ = {plan_.memory, longest, "wire"};
    }
    /// R cuts what is longer, from its front.
    static constexpr std::int64_t most() {
        return bucket_elements > 0 ? bucket_elements : INT64_MAX;
    }

    /// As a Pipeline cuts a gradient.
    void for_each_bucket(auto f) const {
        if (plan_.bucket_elements <= 0) return;
        for (std::int64_t end = plan_.elements; end > 0; end -= plan_.bucket_elements)
            f(std::max<std::int64_t>(0, end - plan_.bucket_elements), end);
    }
    static void for_each_piece(std::int64_t begin, std::int64_t end, auto f) {
        if (end - begin <= most()) return f(begin, end);
        for (; begin < end; begin += most()) f(begin, std::min(end, begin + most()));
    }
    /// What `rank` owns of collective k's part of `count` elements.
    [[nodiscard]] ChunkRange owned(int k, std::int64_t count, int rank) const {
        const ChunkRange part = chunk_range(count, K, k);
        const ChunkRange mine =
            collective::owned_range(all_[index(k)]->reduce_scatter(), part.size(), rank);
        return {part.begin + mine.begin, part.begin + mine.end};
    }
    /// make(k), over part k of the data.
    template <class Wire, class Half, class M>
    static auto flows(ViewIn<typename Wire::storage, M> data, auto make) {
        return [&]<int... k>(std::integer_sequence<int, k...>) {
            return std::array<collective::Flow<Wire, Half, M>, K>{
                flow<Wire, Half, M>(data, k, make)...};
        }(std::make_integer_sequence<int, K>{});
    }
    template <class Wire, class Half, class M>
    static collective::Flow<Wire, Half, M> flow(ViewIn<typename Wire::storage, M> data, int k,
                                                auto& make) {
        const ChunkRange r = chunk_range(static_cast<std::int64_t>(data.size()), K, k);
        collective::Flow<Wire, Half, M> f = make(k);
        f.data =
            data.subspan(static_cast<std::size_t>(r.begin), static_cast<std::size_t>(r.size()));
        return f;
    }

    /// This rank's chunks end as R leaves them.
    template <class T, class M = memory_of<T>>
    ReduceReport scatter(T& link, ViewIn<float, M> values) {
        const int n = plan_.placement.ranks();
        const float before = Divide::before(n), after = Divide::after(n);
        ViewIn<storage, M> wire;
        if constexpr (in_place) wire = values;
        else wire = wire_.template view<M>().first(values.size());
        working_on_part(link, in_place ? "" : "MEMCPY_IN_FUSION_BUFFER");
        if (!in_place || before != 1.0f)
            launch(queue_of(link), kernels::EncodeScaled<E>{before}, ViewIn<const float, M>(values),
                   wire);
        working_on_part(link, "");
        const auto message = static_cast<std::size_t>(message_);
        const collective::Execution done =
            collective::execute(link, flows<E, Scatter, M>(wire, [&](int k) {
                                    auto scratch = scratch_.template view<M>();
                                    if (!scratch.empty())
                                        scratch = scratch.subspan(index(k) * message, message);
                                    return collective::Flow<E, Scatter, M>{
                                        all_[index(k)]->reduce_scatter(), {}, scratch, k};
                                }));
        if (done.delivery.complete() && (!in_place || after != 1.0f))
            for (int k = 0; k < K; ++k) {
                const ChunkRange r =
                    owned(k, static_cast<std::int64_t>(values.size()), link.rank());
                const auto at = static_cast<std::size_t>(r.begin);
                const auto count = static_cast<std::size_t>(r.size());
                launch(queue_of(link), kernels::DecodeScaled<E>{after},
                       ViewIn<const storage, M>(wire.subspan(at, count)),
                       values.subspan(at, count));
            }
        return {done.delivery, done.bytes_sent, done.steps};
    }

    Options options_{};
    R inner_{};
    ReducePlan plan_{.placement = {0, 0}};
    std::array<std::optional<Whole>, static_cast<std::size_t>(K)> all_;
    bool owns_ = false;
    std::int64_t message_ = 0;
    Buffer<storage> wire_, scratch_;
};

}  // namespace gx
