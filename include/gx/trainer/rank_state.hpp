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

/// Throws unless the optimizer's state has the name stored in the checkpoint.
GX_COLD GX_DECL void expect_named(const std::string& file, const std::string& kept,
                                  const std::string& needed);

/// The parts of one rank that a checkpoint keeps.
/// Order: flat vectors are canonical in the checkpoint, in the device's own order in the rank.
template <class Device, class Optimizer, class Pipeline, class Scale>
struct RankState {
    using Reducer = std::remove_cvref_t<decltype(std::declval<Pipeline&>().reducer())>;
    static constexpr bool reducer_replicated = state_scope<Reducer>() == StateScope::replicated;

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
        if (!c.reducer.empty()) restore_reducer(c.reducer[reducer_replicated ? 0 : rank]);
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
        c.reducer_replicated = reducer_replicated;
    }

    /// The reducer's state as a checkpoint keeps it: canonical where it is a gradient.
    [[nodiscard]] GX_COLD std::vector<float> reducer_state() {
        const auto state = pipeline.reducer().state();
        if (!state_is_canonical(state.size())) return {state.begin(), state.end()};
        std::vector<float> out;
        const std::size_t elements = device.parameters().size();
        for (std::size_t i = 0; i < state.size(); i += elements) {
            const std::vector<float> one = canonical(state.subspan(i, elements));
            out.insert(out.end(), one.begin(), one.end());
        }
        return out;
    }

private:
    [[nodiscard]] bool state_is_canonical(std::size_t state) const {
        return state_is_a_gradient<Reducer>() && pipeline.buckets() == 1 &&
               state % device.parameters().size() == 0;
    }
    /// Elements that reducer_state() has.
    [[nodiscard]] std::size_t reducer_elements() const {
        const std::size_t state = pipeline.reducer().state().size();
        if (!state_is_canonical(state)) return state;
        return state / device.parameters().size() * std::size_t(graph.parameter_elements());
    }
    GX_COLD void restore_reducer(std::span<const float> kept) {
        const auto state = pipeline.reducer().state();
        if (!state_is_canonical(state.size())) {
            std::copy(kept.begin(), kept.end(), state.begin());
            return;
        }
        const std::size_t elements = device.parameters().size();
        const auto each = std::size_t(graph.parameter_elements());
        for (std::size_t i = 0; i < state.size() / elements; ++i)
            device.from_canonical(kept.subspan(i * each, each),
                                  state.subspan(i * elements, elements));
    }
    GX_COLD void expect_fits(const Checkpoint& c, std::size_t elements, const std::string& file) {
        expect_kept(file, c.optimizer.size(), optimizer.state().size() / elements,
                    "vectors of the optimizer");
        for (std::size_t i = 0; i < c.optimizer.size(); ++i)
            expect_named(file, c.optimizer[i].name, state_name<Optimizer>(i));
        if constexpr (KeepsScalars<Optimizer>) {
            expect_kept(file, c.scalars.size(), optimizer.scalars().size(),
                        "scalars of the optimizer");
            for (std::size_t i = 0; i < c.scalars.size(); ++i)
                expect_named(file, c.scalars[i].name, std::string(Optimizer::scalar_names[i]));
        } else {
            expect_kept(file, c.scalars.size(), 0, "scalars of the optimizer");
        }
        expect_kept(file, c.reducer.empty() ? 0 : c.reducer.front().size(), reducer_elements(),
                    "numbers of reducer " + reducer_name<Reducer>());
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
