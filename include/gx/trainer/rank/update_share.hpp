// UpdateShare<R, O>: what one rank updates: everything, or what a reducer that owns it leaves it.
#pragma once

#include <algorithm>  // copy, max, min, sort
#include <cstddef>    // size_t
#include <cstdint>    // int64_t
#include <span>       // flat vectors
#include <utility>    // swap
#include <vector>     // flat vectors

#include <gx/collective/all_gather_bytes.hpp>  // all_gather_bytes: norms
#include <gx/collective/execute.hpp>           // execute
#include <gx/collective/tree.hpp>              // Tree
#include <gx/core/cold.hpp>                    // GX_COLD
#include <gx/core/error.hpp>                   // Delivery
#include <gx/core/transport.hpp>               // control_channel
#include <gx/model/graph.hpp>                  // Graph
#include <gx/optimizer/concept.hpp>            // AddsNorms
#include <gx/optimizer/finite.hpp>             // all_finite
#include <gx/optimizer/update_args.hpp>        // UpdateArgs
#include <gx/optimizer/update_cost.hpp>        // update_cost_of
#include <gx/reducer/concept.hpp>              // OwnsUpdate

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

/// Of a reducer that owns the update.
///
/// In parts: the optimizer is reserved for what lies in this rank's parts alone, moved together
/// where these are several, and so is its state. Norms are summed over the ranks exactly.
/// Apart: everything, with this rank's own decisions.
///
/// Cost: in parts, a copy of the parts' parameters and gradients a step, unless they are in one
///       piece; and 2 ceil(log2 n) messages of 4 bytes to decide on a step.
template <class R, class O>
    requires OwnsUpdate<R>
class UpdateShare<R, O> {
public:
    static constexpr bool in_parts = R::owns_update.in_parts;

private:
    static constexpr bool by_norms = in_parts && AddsNorms<O> && !Elementwise<O>;

public:
    /// Whether skipped updates are counted: apart, the ranks' counts must agree.
    static constexpr bool counts_skipped = R::owns_update.apart;
    [[nodiscard]] static constexpr UpdateCost cost(int ranks) {
        UpdateCost c = update_cost_of<O>();
        if (in_parts) c.shards = ranks;
        return c;
    }

    /// Reserves the optimizer, once.
    GX_COLD void reserve(O& optimizer, const R& reducer, int rank, int ranks, std::size_t elements,
                         std::span<const ParameterSlice> slices, const Graph& graph) {
        elements_ = elements;
        parts_ = reducer.updated_by(rank);
        if constexpr (in_parts) {
            all_slices_.assign(slices.begin(), slices.end());
            std::ranges::sort(all_slices_, {}, &ParameterSlice::offset);
            lay_out(parts_);
            optimizer.reserve(mine_, slices_, graph);
            if (by_norms || runs_.size() > 1) parameters_.resize(mine_);
            if (runs_.size() > 1) gradients_.resize(mine_);
            if constexpr (by_norms) norms_.reserve(graph.parameters.size(), ranks);
        } else {
            (void)ranks;
            optimizer.reserve(elements, slices, graph);
        }
    }
    /// Of each vector of this rank's state.
    [[nodiscard]] std::size_t elements() const { return in_parts ? mine_ : elements_; }

    /// Whether the step is applied; and what the update needs of the other ranks. `a` lacks the
    /// parameters.
    Delivery prepare(auto& link, O& optimizer, std::span<const float> parameters,
                     const UpdateArgs& a, bool& applies) {
        applies = true;
        for (const ChunkRange& p : parts_)
            applies =
                applies && all_finite(a.gradients.subspan(static_cast<std::size_t>(p.begin),
                                                          static_cast<std::size_t>(p.size())));
        if constexpr (in_parts) {
            if (const Delivery d = agree_on(link, applies); !d.complete()) return d;
            if constexpr (by_norms) {
                if (!applies) return {};
                collect(parameters, parameters_);
                UpdateArgs mine = of_mine(a);
                mine.parameters = parameters_;
                return norms_.sum(link, optimizer, mine);
            }
        }
        return {};
    }

    /// The update of what is this rank's; `a` has all parameters and gradients, and its state.
    void update(O& optimizer, const UpdateArgs& a) {
        if constexpr (!in_parts) optimizer.update(a);
        else {
            UpdateArgs mine = of_mine(a);
            const bool apart = runs_.size() > 1;
            if (apart) collect(a.parameters, parameters_);
            mine.parameters = apart ? std::span(parameters_) : piece(a.parameters);
            if constexpr (by_norms) optimizer.update_with(mine, norms_.sums());
            else optimizer.update(mine);
            if (apart) spread(runs_, parameters_, a.parameters);
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
    /// In the memory of a device, after an update that is queued there.
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
    [[nodiscard]] std::span<float> state(std::span<float> mine) {
        if constexpr (in_parts) return whole_;
        else return mine;
    }
    GX_COLD void begin_restore() {
        if constexpr (in_parts) whole_.assign(vectors * elements_, 0.0f);
    }
    GX_COLD void end_restore(std::span<float> mine) {
        if constexpr (in_parts) {
            for (std::size_t v = 0; v < vectors; ++v)
                collect(std::span<const float>(whole_).subspan(v * elements_, elements_),
                        mine.subspan(v * mine_, mine_));
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
                const std::vector<Run> runs = runs_of(reducer.updated_by(r));
                std::size_t count = 0;
                for (const Run& run : runs) count += run.count;
                if (r > 0) theirs.resize(vectors * count);
                const auto in = std::as_writable_bytes(std::span(theirs));
                if (r > 0 && !in.empty())
                    if (const Delivery d = link.wait(link.receive(r, control_channel, in));
                        !d.complete())
                        return d;
                for (std::size_t v = 0; v < vectors; ++v)
                    spread(runs, std::span<const float>(theirs).subspan(v * count, count),
                           std::span(whole_).subspan(v * elements_, elements_));
            }
        }
        return {};
    }
    GX_COLD void release() { std::vector<float>().swap(whole_); }

    // On a device, where nothing is in parts.
    template <class M>
    [[nodiscard]] DeviceView<float, M> state(DeviceView<float, M> mine) {
        return mine;
    }
    template <class M>
    void end_restore(DeviceView<float, M>) {}
    template <class M>
    Delivery gather(auto&&, DeviceView<float, M>, const R&) {
        return {};
    }

private:
    static constexpr std::size_t vectors = state_vectors<O>();

    /// Elements of the flat vector that this rank updates, one behind the other.
    struct Run {
        std::size_t begin = 0, count = 0;
    };

    /// Norms of all parameters, of the parts of all ranks.
    struct NoNorms {};
    template <class Optimizer>
    class SummedNorms {
        using Norms = typename Optimizer::Norms;

    public:
        void reserve(std::size_t parameters, int ranks) {
            sums_.resize(parameters);
            all_.resize(parameters * static_cast<std::size_t>(ranks));
            for (int r = 0; r <= ranks; ++r)
                offsets_.push_back(static_cast<std::int64_t>(static_cast<std::size_t>(r) *
                                                             parameters * sizeof(Norms)));
        }
        [[nodiscard]] std::span<const Norms> sums() const { return sums_; }
        Delivery sum(auto& link, Optimizer& optimizer, const UpdateArgs& mine) {
            std::fill(sums_.begin(), sums_.end(), Norms{});
            if (!mine.slices.empty()) optimizer.add_norms(mine, sums_);
            const auto done = collective::all_gather_bytes(
                link, std::as_bytes(std::span<const Norms>(sums_)),
                std::as_writable_bytes(std::span(all_)), std::span(offsets_), control_channel);
            std::fill(sums_.begin(), sums_.end(), Norms{});
            for (std::size_t i = 0; i < all_.size() && done.delivery.complete(); ++i)
                sums_[i % sums_.size()].add(all_[i]);
            return done.delivery;
        }

    private:
        std::vector<Norms> sums_, all_;
        std::vector<std::int64_t> offsets_;
    };
    static auto norms_type() {
        if constexpr (by_norms) return SummedNorms<O>{};
        else return NoNorms{};
    }

    /// What lies in `parts` and in a slice.
    [[nodiscard]] std::vector<Run> runs_of(const std::vector<ChunkRange>& parts) const {
        std::vector<Run> runs;
        for (const ChunkRange& p : parts)
            for (const ParameterSlice& s : all_slices_) {
                const auto [begin, count] = common(s, p);
                if (count == 0) continue;
                if (!runs.empty() && runs.back().begin + runs.back().count == begin)
                    runs.back().count += count;
                else runs.push_back({begin, count});
            }
        return runs;
    }
    [[nodiscard]] static Run common(const ParameterSlice& s, const ChunkRange& p) {
        const std::size_t begin = std::max(s.offset, static_cast<std::size_t>(p.begin));
        const std::size_t end = std::min(s.offset + s.count, static_cast<std::size_t>(p.end));
        return {begin, end > begin ? end - begin : 0};
    }
    void lay_out(const std::vector<ChunkRange>& parts) {
        runs_ = runs_of(parts);
        for (const ChunkRange& p : parts)
            for (const ParameterSlice& s : all_slices_) {
                const Run run = common(s, p);
                if (run.count == 0) continue;
                slices_.push_back({mine_, run.count, s.parameter});
                mine_ += run.count;
            }
    }
    template <class T>
    [[nodiscard]] std::span<T> piece(std::span<T> whole) const {
        return runs_.empty() ? whole.first(0) : whole.subspan(runs_[0].begin, runs_[0].count);
    }
    void collect(std::span<const float> whole, std::span<float> mine) const {
        std::size_t at = 0;
        for (const Run& run : runs_) {
            const auto from = whole.subspan(run.begin, run.count);
            std::copy(from.begin(), from.end(), mine.subspan(at).begin());
            at += run.count;
        }
    }
    static void spread(const std::vector<Run>& runs, std::span<const float> mine,
                       std::span<float> whole) {
        std::size_t at = 0;
        for (const Run& run : runs) {
            const auto from = mine.subspan(at, run.count);
            std::copy(from.begin(), from.end(), whole.subspan(run.begin).begin());
            at += run.count;
        }
    }
    /// `a` without its parameters, in the layout that the optimizer was reserved with.
    [[nodiscard]] UpdateArgs of_mine(UpdateArgs a) {
        if (runs_.size() > 1) {
            collect(a.gradients, gradients_);
            a.gradients = gradients_;
        } else {
            a.gradients = piece(a.gradients);
        }
        a.slices = slices_;
        return a;
    }
    /// Whether `mine` holds on all ranks.
    static Delivery agree_on(auto& link, bool& mine) {
        float against = mine ? 0.0f : 1.0f, scratch = 0;
        const auto done =
            collective::execute(link, collective::Flow<fp32, collective::Tree>{
                                          collective::Tree(link.ranks()), std::span(&against, 1),
                                          std::span(&scratch, 1), control_channel});
        mine = against == 0;
        return done.delivery;
    }

    std::size_t elements_ = 0;  ///< of the device's flat vector
    std::vector<ChunkRange> parts_;
    std::vector<ParameterSlice> all_slices_;  ///< of the device, ascending
    std::vector<Run> runs_;                   ///< in this rank's parts
    std::vector<ParameterSlice> slices_;      ///< of the optimizer
    std::size_t mine_ = 0;                    ///< elements of them
    std::vector<float> parameters_, gradients_, whole_;
    [[no_unique_address]] decltype(norms_type()) norms_;
};

}  // namespace gx::detail::trainer
