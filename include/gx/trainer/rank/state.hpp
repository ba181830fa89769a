// RankState: saves and restores the training state of one rank.
#pragma once

#include <algorithm>    // copy, min
#include <array>        // loss scales
#include <concepts>     // same_as
#include <cstdint>      // int64_t
#include <span>         // flat vectors
#include <string>       // names
#include <type_traits>  // remove_cvref_t
#include <utility>      // declval
#include <vector>       // flat vectors

#include <gx/core/cold.hpp>                // GX_COLD
#include <gx/core/contract.hpp>            // GX_EXPECT
#include <gx/core/decl.hpp>                // GX_DECL
#include <gx/core/error.hpp>               // Error
#include <gx/model/graph.hpp>              // Graph
#include <gx/optimizer/concept.hpp>        // KeepsScalars, state_name
#include <gx/reducer/name.hpp>             // reducer_name
#include <gx/reducer/pipeline.hpp>         // PendingGradient
#include <gx/trainer/checkpoint.hpp>       // Checkpoint
#include <gx/trainer/rank/step_slots.hpp>  // get, put, queue_of

namespace gx::detail::trainer {

/// What one rank needs of a checkpoint, by the names that it keeps.
struct StateNeeds {
    std::vector<std::string> vectors{}, scalars{};  ///< of the optimizer
    std::string reducer{};                          ///< its name
    StateList reducer_state{};
    std::size_t elements = 0;    ///< of a gradient in the graph's order
    std::size_t statistics = 0;  ///< running ones
    int staleness = 0;
    bool goes_on = true;  ///< steps follow, which need the gradients in flight
};

/// Errors: gx::Error naming `file` and the first that it keeps in another size, scope or name.
GX_COLD GX_DECL void expect_fits(const Checkpoint& c, const std::string& file,
                                 const StateNeeds& needs);

/// An optimizer's scalars() to and from a checkpoint, by their names.
GX_COLD GX_DECL void keep_scalars(Checkpoint& c, const std::vector<std::string>& names,
                                  std::span<const double> scalars);
GX_COLD GX_DECL void take_scalars(const Checkpoint& c, std::span<double> scalars);

template <Optimizer O>
GX_COLD [[nodiscard]] std::vector<std::string> state_names() {
    std::vector<std::string> names(state_vectors<O>());
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = state_name<O>(i);
    return names;
}
template <Optimizer O>
GX_COLD [[nodiscard]] std::vector<std::string> scalar_names() {
    if constexpr (KeepsScalars<O>) return {O::scalar_names.begin(), O::scalar_names.end()};
    else return {};
}

/// What a checkpoint relies on in a vector of a reducer's state: fixed from reserve() on.
struct StateShape {
    std::string name;
    std::size_t size = 0;
    StateScope scope = StateScope::per_rank;
    bool is_gradient = false;
    bool operator==(const StateShape&) const = default;
};

/// Shapes of `state`, for flat vectors of `elements`.
/// Errors: gx::Error naming the reducer and the vector that a checkpoint could not keep.
[[nodiscard]] GX_COLD GX_DECL std::vector<StateShape> shapes_of(const StateList& state,
                                                                std::size_t elements,
                                                                const std::string& reducer);

/// Throws where the shapes have changed since the reducer was reserved: a resumed run, which
/// restores what was just reserved, would refuse the checkpoint.
GX_COLD GX_DECL void expect_shapes(const std::vector<StateShape>& reserved,
                                   const std::vector<StateShape>& now, int rank, std::int64_t step,
                                   const std::string& reducer);

/// The parts of one rank that a checkpoint keeps, but what it decides (Decisions).
/// Order: flat vectors are canonical in the checkpoint, in the device's own order in the rank.
template <class Device, class Optimizer, class Pipeline, class View>
struct RankState {
    using Reducer = std::remove_cvref_t<decltype(std::declval<Pipeline&>().reducer())>;
    using M = memory_of<Device>;
    static constexpr bool on_host = std::same_as<M, HostMemory>;

    const Graph& graph;
    Device& device;
    Optimizer& optimizer;
    Pipeline& pipeline;
    View vectors;  ///< of the optimizer's state; in the device's memory, or on the host

    void load(std::span<const float> canonical) {
        device.update([&](ViewIn<float, M> mine) { device.from_canonical(canonical, mine); });
    }
    [[nodiscard]] std::vector<float> canonical(ViewIn<const float, M> mine) const {
        std::vector<float> out(std::size_t(graph.parameter_elements()));
        device.to_canonical(mine, out);
        return out;
    }
    [[nodiscard]] decltype(auto) queue() const { return queue_of(device); }

    /// Errors: gx::Error naming `file` where a policy's state has another size.
    /// `goes_on`: to further steps. `scales`: of the gradients in flight.
    template <class Decisions, std::size_t N>
    GX_COLD void restore(const Checkpoint& c, int rank, const std::string& file, bool goes_on,
                         Decisions& decisions, std::array<float, N>& scales) {
        const std::size_t elements = device.parameters().size();
        StateNeeds needed = needs();
        needed.goes_on = goes_on;
        expect_fits(c, file, needed);
        load(c.parameters);
        put(queue(), c.statistics, device.statistics());
        for (std::size_t i = 0; i < c.optimizer.size(); ++i)
            restore_vector(c.optimizer[i].values, vectors.subspan(i * elements, elements));
        if constexpr (KeepsScalars<Optimizer>) take_scalars(c, optimizer.scalars());
        std::vector<std::vector<float>> mine;
        std::vector<PendingGradient> kept;
        for (const auto& p : c.pending) {
            scales[p.index % N] = p.loss_scale;
            kept.push_back({.index = p.index, .values = mine.emplace_back(elements)});
            if constexpr (on_host) device.from_canonical(p.values, mine.back());
        }
        pipeline.restore(std::uint64_t(c.step), kept);
        if constexpr (!on_host)
            for (const auto& p : c.pending)
                device.from_canonical(p.values, pipeline.slot_of(p.index));
        restore_reducer(c, rank);
        decisions.scale.restore(c.loss_scale);
        decisions.updates = c.updates;
        decisions.skips_in_a_row = c.skips_in_a_row;
    }

    /// All but the reducer's state, which every rank contributes to.
    template <class Decisions, std::size_t N>
    GX_COLD void save(Checkpoint& c, const Decisions& decisions,
                      const std::array<float, N>& scales) {
        c.loss_scale = decisions.scale.state();
        c.updates = decisions.updates;
        c.skips_in_a_row = decisions.skips_in_a_row;
        c.parameters = canonical(device.parameters());
        c.statistics = get(queue(), device.statistics());
        const std::size_t elements = device.parameters().size();
        for (std::size_t i = 0; (i + 1) * elements <= vectors.size(); ++i)
            c.optimizer.push_back(
                {state_name<Optimizer>(i), kept_vector(vectors.subspan(i * elements, elements))});
        if constexpr (KeepsScalars<Optimizer>)
            keep_scalars(c, scalar_names<Optimizer>(), optimizer.scalars());
        for (const auto& p : pipeline.pending())
            c.pending.push_back({.index = p.index,
                                 .loss_scale = scales[p.index % N],
                                 .values = canonical(p.values)});
    }

    /// A vector of the reducer's state as a checkpoint keeps it: canonical where it is a gradient.
    [[nodiscard]] GX_COLD std::vector<float> kept(const StateVector& v) const {
        if (v.is_gradient) return canonical(view_of(v));
        return get(queue(), view_of(v));
    }

    /// In the device's own order.
    [[nodiscard]] static ViewIn<float, M> view_of(const StateVector& v) {
        if constexpr (on_host) {
            return v.values;
        } else {
            GX_EXPECT(v.on_device != nullptr, "on a device a reducer's state lies there");
            const auto all = v.on_device->template view<M>();
            return all.subspan(std::size_t(v.part.begin), v.size());
        }
    }

private:
    /// A vector of the optimizer's state. One that lies on the host, in the device's order, goes by
    /// way of a gradient's slot, which holds nothing between two steps of a reducer that is not
    /// late.
    static constexpr bool in_memory = std::same_as<View, ViewIn<float, M>>;
    GX_COLD void restore_vector(const std::vector<float>& canonical, View mine) {
        if constexpr (in_memory) {
            device.from_canonical(canonical, mine);
        } else {
            static_assert(Pipeline::staleness == 0);
            device.from_canonical(canonical, pipeline.slot_of(0));
            std::ranges::copy(get(queue(), pipeline.slot_of(0)), mine.begin());
        }
    }
    GX_COLD [[nodiscard]] std::vector<float> kept_vector(View mine) {
        if constexpr (!in_memory) {
            static_assert(Pipeline::staleness == 0);
            put(queue(), std::vector<float>(mine.begin(), mine.end()), pipeline.slot_of(0));
            return canonical(pipeline.slot_of(0));
        } else {
            return canonical(mine);
        }
    }
    GX_COLD void restore_reducer(const Checkpoint& c, int rank) {
        const StateList state = pipeline.reducer().state();
        for (std::size_t i = 0; i < state.size(); ++i) {
            const auto& ranks = c.reducer[i].ranks;
            const std::vector<float>& mine = ranks[c.reducer[i].replicated ? 0 : std::size_t(rank)];
            if (state[i].is_gradient) device.from_canonical(mine, view_of(state[i]));
            else put(queue(), mine, view_of(state[i]));
        }
    }
    [[nodiscard]] GX_COLD StateNeeds needs() const {
        return {.vectors = state_names<Optimizer>(),
                .scalars = scalar_names<Optimizer>(),
                .reducer = reducer_name<Reducer>(),
                .reducer_state = pipeline.reducer().state(),
                .elements = std::size_t(graph.parameter_elements()),
                .statistics = device.statistics().size(),
                .staleness = Pipeline::staleness};
    }
};
template <class D, class O, class P, class V>
RankState(const Graph&, D&, O&, P&, V) -> RankState<D, O, P, V>;

}  // namespace gx::detail::trainer

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/rank/impl/state.ipp>
#endif
