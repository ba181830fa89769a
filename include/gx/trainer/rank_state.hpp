// RankState: saves and restores the training state of one rank.
#pragma once

#include <algorithm>  // copy, min
#include <cstdint>    // int64_t
#include <span>       // flat vectors
#include <string>     // names
#include <vector>     // flat vectors

#include <gx/core/cold.hpp>           // GX_COLD
#include <gx/core/contract.hpp>       // GX_EXPECT
#include <gx/core/decl.hpp>           // GX_DECL
#include <gx/core/error.hpp>          // Error
#include <gx/model/graph.hpp>         // Graph
#include <gx/optimizer/concept.hpp>   // KeepsScalars, state_name
#include <gx/reducer/name.hpp>        // reducer_name
#include <gx/reducer/pipeline.hpp>    // PendingGradient
#include <gx/trainer/checkpoint.hpp>  // Checkpoint

namespace gx::detail::trainer {

/// Throws unless a policy's state has the size stored in the checkpoint.
GX_COLD GX_DECL void expect_kept(const std::string& file, std::size_t kept, std::size_t needed,
                                 const std::string& what);

/// Throws unless the state of `policy` has the name stored in the checkpoint.
GX_COLD GX_DECL void expect_named(const std::string& file, const std::string& kept,
                                  const std::string& needed, const std::string& policy);

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

/// The parts of one rank that a checkpoint keeps.
/// Order: flat vectors are canonical in the checkpoint, in the device's own order in the rank.
template <class Device, class Optimizer, class Pipeline, class Scale>
struct RankState {
    using Reducer = std::remove_cvref_t<decltype(std::declval<Pipeline&>().reducer())>;

    const Graph& graph;
    Device& device;
    Optimizer& optimizer;
    Pipeline& pipeline;
    Scale& scale;
    std::vector<float>& scales;  ///< loss scale of each gradient in flight

    void load(std::span<const float> canonical) {
        device.update([&](std::span<float> mine) { device.from_canonical(canonical, mine); });
    }
    [[nodiscard]] std::vector<float> canonical(std::span<const float> mine) const {
        std::vector<float> out(std::size_t(graph.parameter_elements()));
        device.to_canonical(mine, out);
        return out;
    }

    /// Errors: gx::Error naming `file` where a policy's state has another size.
    GX_COLD void restore(const Checkpoint& c, int rank, const std::string& file) {
        const std::size_t elements = device.parameters().size();
        expect_fits(c, elements, file);
        load(c.parameters);
        std::copy(c.statistics.begin(), c.statistics.end(), device.statistics().begin());
        const auto state = optimizer.state();
        for (std::size_t i = 0; i < c.optimizer.size(); ++i)
            device.from_canonical(c.optimizer[i].values, state.subspan(i * elements, elements));
        if constexpr (KeepsScalars<Optimizer>)
            for (std::size_t i = 0; i < c.scalars.size(); ++i)
                optimizer.scalars()[i] = c.scalars[i].value;
        std::vector<std::vector<float>> mine;
        std::vector<PendingGradient> kept;
        for (const auto& p : c.pending) {
            mine.emplace_back(elements);
            device.from_canonical(p.values, mine.back());
            scales[p.index % scales.size()] = p.loss_scale;
            kept.push_back({.index = p.index, .values = mine.back()});
        }
        pipeline.restore(std::uint64_t(c.step), kept);
        restore_reducer(c, rank);
        scale.restore(c.loss_scale);
    }

    /// All but the reducer's state, which every rank contributes to.
    GX_COLD void save(Checkpoint& c) {
        c.loss_scale = scale.state();
        c.parameters = canonical(device.parameters());
        c.statistics.assign(device.statistics().begin(), device.statistics().end());
        const auto state = optimizer.state();
        const std::size_t elements = device.parameters().size();
        for (std::size_t i = 0; (i + 1) * elements <= state.size(); ++i)
            c.optimizer.push_back(
                {state_name<Optimizer>(i), canonical(state.subspan(i * elements, elements))});
        if constexpr (KeepsScalars<Optimizer>) {
            GX_EXPECT(std::size(Optimizer::scalar_names) == optimizer.scalars().size(),
                      "an optimizer has as many scalar_names as scalars()");
            for (std::size_t i = 0; i < optimizer.scalars().size(); ++i)
                c.scalars.push_back(
                    {std::string(Optimizer::scalar_names[i]), optimizer.scalars()[i]});
        }
        for (const PendingGradient& p : pipeline.pending())
            c.pending.push_back({p.index, scales[p.index % scales.size()], canonical(p.values)});
    }

    /// A vector of the reducer's state as a checkpoint keeps it: canonical where it is a gradient.
    [[nodiscard]] GX_COLD std::vector<float> kept(const StateVector& v) const {
        if (v.is_gradient) return canonical(v.values);
        return {v.values.begin(), v.values.end()};
    }

private:
    [[nodiscard]] std::size_t kept_size(const StateVector& v) const {
        return v.is_gradient ? std::size_t(graph.parameter_elements()) : v.values.size();
    }
    GX_COLD void restore_reducer(const Checkpoint& c, int rank) {
        const StateList state = pipeline.reducer().state();
        for (std::size_t i = 0; i < state.size(); ++i) {
            const auto& ranks = c.reducer[i].ranks;
            const std::vector<float>& mine = ranks[c.reducer[i].replicated ? 0 : std::size_t(rank)];
            if (state[i].is_gradient) device.from_canonical(mine, state[i].values);
            else std::copy(mine.begin(), mine.end(), state[i].values.begin());
        }
    }
    GX_COLD void expect_fits(const Checkpoint& c, std::size_t elements, const std::string& file) {
        expect_kept(file, c.optimizer.size(), optimizer.state().size() / elements,
                    "vectors of the optimizer");
        for (std::size_t i = 0; i < c.optimizer.size(); ++i)
            expect_named(file, c.optimizer[i].name, state_name<Optimizer>(i), "an optimizer");
        if constexpr (KeepsScalars<Optimizer>) {
            expect_kept(file, c.scalars.size(), optimizer.scalars().size(),
                        "scalars of the optimizer");
            for (std::size_t i = 0; i < c.scalars.size(); ++i)
                expect_named(file, c.scalars[i].name, std::string(Optimizer::scalar_names[i]),
                             "an optimizer");
        } else {
            expect_kept(file, c.scalars.size(), 0, "scalars of the optimizer");
        }
        const StateList state = pipeline.reducer().state();
        const std::string reducer = "reducer " + reducer_name<Reducer>();
        expect_kept(file, c.reducer.size(), state.size(), "vectors of " + reducer);
        for (std::size_t i = 0; i < state.size(); ++i) {
            expect_named(file, c.reducer[i].name, std::string(state[i].name), reducer);
            expect_kept(file, c.reducer[i].ranks.front().size(), kept_size(state[i]),
                        "numbers of '" + c.reducer[i].name + "' of " + reducer);
        }
        expect_kept(file, c.pending.size(),
                    std::min(std::size_t(c.step), std::size_t(Pipeline::staleness)),
                    "gradients in flight (none after a run's last epoch)");
        expect_kept(file, device.statistics().size(), c.statistics.size(), "running statistics");
    }
};
template <class D, class O, class P, class S>
RankState(const Graph&, D&, O&, P&, S&, std::vector<float>&) -> RankState<D, O, P, S>;

}  // namespace gx::detail::trainer

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/impl/rank_state.ipp>
#endif
