// UpdateShare<R, O>: what one rank updates: everything, or what an owning reducer leaves it.
#pragma once

#include <algorithm>  // all_of, sort
#include <cstddef>    // size_t
#include <cstdint>    // int64_t
#include <span>       // flat vectors
#include <utility>    // swap
#include <vector>     // flat vectors

#include <gx/collective/execute.hpp>         // execute
#include <gx/collective/tree.hpp>            // Tree
#include <gx/core/cold.hpp>                  // GX_COLD
#include <gx/core/error.hpp>                 // Delivery
#include <gx/core/transport.hpp>             // control_channel
#include <gx/memory/buffer.hpp>              // Buffer
#include <gx/memory/kernels.hpp>             // Fill
#include <gx/memory/queue.hpp>               // launch, StreamOrdered
#include <gx/memory/queued_device.hpp>       // DeviceQueue
#include <gx/model/graph.hpp>                // Graph
#include <gx/optimizer/concept.hpp>          // AddsNorms
#include <gx/optimizer/finite.hpp>           // all_finite
#include <gx/optimizer/update_args.hpp>      // UpdateArgs
#include <gx/optimizer/update_cost.hpp>      // update_cost_of
#include <gx/reducer/concept.hpp>            // OwnsUpdate
#include <gx/trainer/rank/decisions.hpp>     // FindOverflow, AddNorms, Update
#include <gx/trainer/rank/shard_layout.hpp>  // ShardLayout
#include <gx/trainer/rank/summed_norms.hpp>  // SummedNorms

namespace gx::detail::trainer {

/// Of a reducer that owns nothing: every rank updates all parameters with the same bits.
template <class R, class O>
class UpdateShare {
public:
    static constexpr bool in_parts = false;
    [[nodiscard]] static constexpr UpdateCost cost(int) { return update_cost_of<O>(); }

    // ---- Checkpoints -----------------------------------------------------------------------
    /// The optimizer's state of all parameters, given this rank's.
    template <class View>
    [[nodiscard]] static View state(View mine) {
        return mine;
    }
    static void begin_restore() {}
    static void end_restore(auto) {}
    static Delivery gather(auto&&, auto, R&) { return {}; }
    static void release() {}
};

/// An update on a device as it is queued: what lies there, D the decisions.
template <class O, class D, class M>
struct ShardUpdate {
    O* optimizer;
    ViewIn<const float, M> gradients;
    ViewIn<float, M> state;
    ScalarIn<float, M> scale, rate;
    ViewIn<D, M> decisions;
};

/// Of a reducer that owns the update.
///
/// In parts: the optimizer is reserved for what lies in this rank's parts alone, moved together
/// where these are several, and so is its state. Norms are summed over the ranks exactly.
/// Apart: everything, with this rank's own decisions.
///
/// Cost: in parts, a copy of the parts' parameters and gradients a step, unless they are in one
///       piece; and 2 ceil(log2 n) messages of 4 bytes to decide on a step. In the memory of a
///       device the host waits for none of it, so a skipped step sends what others send.
template <class R, class O>
    requires OwnsUpdate<R>
class UpdateShare<R, O> {
public:
    static constexpr bool in_parts = R::owns_update.in_parts;

private:
    static constexpr bool by_norms = in_parts && AddsNorms<O> && !Elementwise<O>;

public:
    /// Whether skipped updates are counted: apart, the ranks' counts must agree.
    static constexpr bool counts_skipped = updates_apart<R>;
    [[nodiscard]] static constexpr UpdateCost cost(int ranks) {
        UpdateCost c = update_cost_of<O>();
        if (in_parts) c.shards = ranks;
        return c;
    }

    /// Reserves the optimizer, once. `memory`: of parameters and gradients; nullptr: the host's.
    GX_COLD void reserve(O& optimizer, const R& reducer, int rank, int ranks, std::size_t elements,
                         std::span<const ParameterSlice> slices, const Graph& graph,
                         MemoryResource* memory = nullptr) {
        elements_ = elements;
        parts_ = reducer.updated_by(rank);
        if constexpr (in_parts) {
            all_slices_.assign(slices.begin(), slices.end());
            std::ranges::sort(all_slices_, {}, &ParameterSlice::offset);
            shard_ = ShardLayout(parts_, all_slices_);
            optimizer.reserve(shard_.elements(), shard_.slices(), graph);
            const auto mine = static_cast<std::int64_t>(shard_.elements());
            if (by_norms || shard_.apart()) parameters_ = {memory, mine, "parameters of a shard"};
            if (shard_.apart()) gradients_ = {memory, mine, "gradients of a shard"};
            against_ = {memory, 2, "ranks against a step"};
            if constexpr (by_norms)
                norms_ = SummedNorms<O>(memory, graph.parameters.size(), rank, ranks);
        } else {
            (void)ranks, (void)memory;
            optimizer.reserve(elements, slices, graph);
        }
    }
    /// Of each vector of this rank's state.
    [[nodiscard]] std::size_t elements() const { return in_parts ? shard_.elements() : elements_; }

    // ---- A step, on the host ---------------------------------------------------------------
    /// Whether the step is applied; and what the update needs of the other ranks. `a` lacks the
    /// parameters.
    Delivery prepare(auto& link, O& optimizer, std::span<const float> parameters,
                     const UpdateArgs& a, bool& applies) {
        if constexpr (!in_parts) {
            applies = std::ranges::all_of(
                parts_, [&](const ChunkRange& p) { return all_finite(part_of(a.gradients, p)); });
        } else {
            const Delivery d = agree(HostQueue{}, link, a.gradients);
            applies = against()[0] == 0;
            if (!d.complete() || !applies) return d;
            collect(HostQueue{}, parameters, a.gradients);
            if constexpr (by_norms) {
                UpdateArgs mine = of_mine(a);
                mine.parameters = parameters_.view();
                const auto norms = norms_.begin(HostQueue{});
                if (!mine.slices.empty()) optimizer.add_norms(mine, norms);
                return norms_.sum(HostQueue{}, link);
            }
        }
        return {};
    }

    /// The update that was prepared, of what is this rank's; `a` has all parameters and gradients,
    /// and its state.
    void update(O& optimizer, const UpdateArgs& a) {
        if constexpr (!in_parts) optimizer.update(a);
        else {
            UpdateArgs mine = of_mine(a);
            mine.parameters = parameters_of_mine<HostMemory>(a.parameters);
            if constexpr (by_norms) optimizer.update_with(mine, norms_.sums());
            else optimizer.update(mine);
            if (shard_.apart()) shard_.spread(HostQueue{}, parameters_.view(), a.parameters);
        }
    }

    /// After an update or a skipped step.
    template <class Device>
    ReduceReport updated(R& reducer, Device& device, auto& link, bool applied, bool last) {
        const auto change = [&](FunctionRef<void(std::span<float>)> f) {
            if constexpr (requires { device.receive(f); }) device.receive(f);
            else device.update(f);
        };
        return reducer.updated(link, OwnedUpdate{change, applied, last});
    }

    // ---- A step, in the memory of a device -------------------------------------------------
    /// Of a part: queues the ranks' decision, and what the update needs of the other ranks, behind
    /// the reductions.
    template <class D, StreamOrdered T, class M = memory_of<T>>
    void prepare(T& link, const ShardUpdate<O, D, M>& u, ViewIn<const float, M> parameters) {
        auto& queue = link.queue();
        (void)agree(queue, link, u.gradients);
        collect(queue, parameters, u.gradients);
        if constexpr (by_norms) {
            const auto norms = norms_.begin(queue);
            launch(queue, of_shard<AddNorms<O, D>>(u), parameters_.template view<M>(),
                   gradients_of_mine<M>(u.gradients), u.scale, u.state,
                   ViewIn<const D, M>(u.decisions), norms);
            (void)norms_.sum(queue, link);
        }
    }
    /// Ranks that can't apply the step, once prepare() is done.
    template <class M = HostMemory>
    [[nodiscard]] ViewIn<const float, M> against() {
        return against_.template view<M>().first(1);
    }
    /// Queues the update of a part.
    template <class D, DeviceQueue Q, class M = memory_of<Q>>
    void update(Q& queue, const ShardUpdate<O, D, M>& u, ViewIn<float, M> parameters) {
        const auto launch_with = [&](auto... norms) {
            launch(queue, of_shard<Update<O, D>>(u), parameters_of_mine<M>(parameters),
                   gradients_of_mine<M>(u.gradients), u.scale, u.rate, u.state, u.decisions,
                   norms...);
        };
        if constexpr (by_norms) launch_with(norms_.template sums<M>());
        else launch_with();
        if (shard_.apart()) shard_.spread(queue, parameters_.template view<M>(), parameters);
    }
    /// After an update that is queued, before what the device derives from the parameters.
    template <DeviceQueue Q, StreamOrdered T, class M = memory_of<T>>
    ReduceReport updated(R& reducer, Q& queue, T& link, ViewIn<float, M> parameters, bool last) {
        const auto change = [&](FunctionRef<void(ViewIn<float, M>)> f) { f(parameters); };
        link.queue().wait_for(queue.record());
        const ReduceReport done =
            reducer.updated(link, OwnedUpdateIn<M>{.change = change, .last = last});
        queue.wait_for(link.queue().record());
        return done;
    }
    /// Of a replica.
    template <class Device, StreamOrdered T>
    ReduceReport updated(R& reducer, Device& device, T& link, bool last) {
        using M = memory_of<T>;
        const auto follow = [](auto& queue, auto& other) { queue.wait_for(other.record()); };
        const auto change = [&](FunctionRef<void(ViewIn<float, M>)> f) {
            const auto exchange = [&](ViewIn<float, M> parameters) {
                f(parameters);
                follow(device.queue(), link.queue());  // before what the device derives from them
            };
            if constexpr (requires { device.receive(exchange); }) device.receive(exchange);
            else device.update(exchange);
        };
        follow(link.queue(), device.queue());
        const ReduceReport done =
            reducer.updated(link, OwnedUpdateIn<M>{.change = change, .last = last});
        follow(device.queue(), link.queue());
        return done;
    }

    // ---- Checkpoints -----------------------------------------------------------------------
    /// Of all parameters, on rank 0 once gathered, or given this rank's; in parts it lies on the
    /// host in every world.
    [[nodiscard]] auto state(auto mine) {
        if constexpr (in_parts) return std::span<float>(whole_);
        else return mine;
    }
    GX_COLD void begin_restore() {
        if constexpr (in_parts) whole_.assign(vectors * elements_, 0.0f);
    }
    GX_COLD void end_restore(std::span<float> mine) {
        if constexpr (in_parts) {
            const std::size_t count = shard_.elements();
            for (std::size_t v = 0; v < vectors; ++v)
                shard_.collect(HostQueue{},
                               std::span<const float>(whole_).subspan(v * elements_, elements_),
                               mine.subspan(v * count, count));
            release();
        }
    }
    /// Rank 0 gets the state of all ranks, for state().
    GX_COLD Delivery gather(auto&& link, std::span<const float> mine, const R& reducer) {
        if constexpr (in_parts) {
            if (link.rank() != 0)
                return mine.empty() ? Delivery{}
                                    : link.wait(link.send(0, control_channel, std::as_bytes(mine)));
            begin_restore();
            std::vector<float> theirs(mine.begin(), mine.end());
            for (int r = 0; r < link.ranks(); ++r) {
                const ShardLayout layout(reducer.updated_by(r), all_slices_);
                const std::size_t count = layout.elements();
                if (r > 0) theirs.resize(vectors * count);
                const auto in = std::as_writable_bytes(std::span(theirs));
                if (r > 0 && !in.empty())
                    if (const Delivery d = link.wait(link.receive(r, control_channel, in));
                        !d.complete())
                        return d;
                for (std::size_t v = 0; v < vectors; ++v)
                    layout.spread(HostQueue{},
                                  std::span<const float>(theirs).subspan(v * count, count),
                                  std::span(whole_).subspan(v * elements_, elements_));
            }
        }
        return {};
    }
    GX_COLD void release() { std::vector<float>().swap(whole_); }

private:
    static constexpr std::size_t vectors = state_vectors<O>();

    struct NoNorms {};
    static auto norms_type() {
        if constexpr (by_norms) return SummedNorms<O>{};
        else return NoNorms{};
    }

    template <class View>
    [[nodiscard]] static View part_of(View whole, const ChunkRange& part) {
        return whole.subspan(static_cast<std::size_t>(part.begin),
                             static_cast<std::size_t>(part.size()));
    }
    template <class M>
    [[nodiscard]] ViewIn<float, M> parameters_of_mine(ViewIn<float, M> all) {
        return shard_.apart() ? parameters_.template view<M>() : shard_.piece(all);
    }
    template <class M>
    [[nodiscard]] ViewIn<const float, M> gradients_of_mine(ViewIn<const float, M> all) {
        return shard_.apart() ? ViewIn<const float, M>(gradients_.template view<M>())
                              : shard_.piece(all);
    }
    /// Copies the shard together, where it is in several pieces or norms need a copy to work on.
    template <class Queue, class M = memory_of<Queue>>
    void collect(Queue&& queue, ViewIn<const float, M> parameters,
                 ViewIn<const float, M> gradients) {
        if (by_norms || shard_.apart())
            shard_.collect(queue, parameters, parameters_.template view<M>());
        if (shard_.apart()) shard_.collect(queue, gradients, gradients_.template view<M>());
    }
    /// `a` without its parameters, in the layout that the optimizer was reserved with.
    [[nodiscard]] UpdateArgs of_mine(UpdateArgs a) {
        a.gradients = gradients_of_mine<HostMemory>(a.gradients);
        a.slices = shard_.slices();
        return a;
    }
    template <class Kernel, class D, class M>
    [[nodiscard]] Kernel of_shard(const ShardUpdate<O, D, M>& u) const {
        return {u.optimizer, shard_.slices().data(), shard_.slices().size()};
    }
    /// Adds up, on all ranks, who is against the step.
    template <class Queue, Link T, class M = memory_of<T>>
    Delivery agree(Queue&& queue, T& link, ViewIn<const float, M> mean) {
        const ViewIn<float, M> votes = against_.template view<M>();
        launch(queue, kernels::Fill<float>{}, votes);
        for (const ChunkRange& p : parts_)
            launch(queue, FindOverflow{}, part_of(mean, p), votes.first(1));
        const collective::Flow<fp32, collective::Tree, M> sum{
            collective::Tree(link.ranks()), votes.first(1), votes.last(1), control_channel};
        return collective::execute(link, sum).delivery;
    }

    std::size_t elements_ = 0;  ///< of the device's flat vector
    std::vector<ChunkRange> parts_;
    std::vector<ParameterSlice> all_slices_;  ///< of the device, ascending
    ShardLayout shard_;                       ///< of the optimizer
    Buffer<float> parameters_, gradients_;    ///< of the shard, where it has to be copied
    Buffer<float> against_;  ///< ranks that can't apply the step, and a scratch as long
    std::vector<float> whole_;
    [[no_unique_address]] decltype(norms_type()) norms_;
};

}  // namespace gx::detail::trainer
