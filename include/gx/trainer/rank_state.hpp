// RankState: what of a rank a checkpoint keeps, and how it is taken from there.
#pragma once

#include <algorithm>  // copy, min
#include <cstdint>    // int64_t
#include <span>       // flat vectors
#include <string>     // names
#include <vector>     // flat vectors

#include <fmt/core.h>  // sentences

#include <gx/core/cold.hpp>  // GX_COLD
#include <gx/core/error.hpp>          // Error
#include <gx/model/graph.hpp>         // Graph
#include <gx/reducer/pipeline.hpp>    // PendingGradient
#include <gx/trainer/checkpoint.hpp>  // Checkpoint

namespace gx::detail::trainer {

/// What the Trainer can't know of a checkpoint: whether the policies' states have its lengths.
inline void expect_kept(std::size_t kept, std::size_t needed, const char* what) {
    if (kept == needed) return;
    throw Error(fmt::format("the checkpoint to resume from keeps {} {} where this run needs {}. "
                            "Resume with the composition that wrote it.",
                            kept, what, needed));
}

/// The parts of one rank that go on after a checkpoint, wherever they are kept.
/// Order: flat vectors are canonical in the checkpoint, in the device's own order in the rank.
template <class Device, class Optimizer, class Pipeline, class Scale>
struct RankState {
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

    GX_COLD void restore(const Checkpoint& c) {
        const std::size_t elements = device.parameters().size();
        expect_fits(c, elements);
        load(c.parameters);
        std::copy(c.statistics.begin(), c.statistics.end(), device.statistics().begin());
        const auto state = optimizer.state();
        for (std::size_t i = 0; i < c.optimizer.size(); ++i)
            device.from_canonical(c.optimizer[i], state.subspan(i * elements, elements));
        std::vector<std::vector<float>> mine;
        std::vector<PendingGradient> kept;
        for (const auto& p : c.pending) {
            mine.emplace_back(elements);
            device.from_canonical(p.values, mine.back());
            scales[p.index % scales.size()] = p.loss_scale;
            kept.push_back({.index = p.index, .values = mine.back()});
        }
        pipeline.restore(std::uint64_t(c.step), kept);
        if (const auto kept_by_reducer = pipeline.reducer().state(); !kept_by_reducer.empty())
            std::copy(c.reducer.begin(), c.reducer.end(), kept_by_reducer.begin());
        scale.restore(c.loss_scale);
    }

    GX_COLD void save(Checkpoint& c) {
        c.loss_scale = scale.state();
        c.parameters = canonical(device.parameters());
        c.statistics.assign(device.statistics().begin(), device.statistics().end());
        const auto state = optimizer.state();
        const std::size_t elements = device.parameters().size();
        for (std::size_t i = 0; i + elements <= state.size(); i += elements)
            c.optimizer.push_back(canonical(state.subspan(i, elements)));
        for (const PendingGradient& p : pipeline.pending())
            c.pending.push_back({p.index, scales[p.index % scales.size()], canonical(p.values)});
        const auto kept = pipeline.reducer().state();
        c.reducer.assign(kept.begin(), kept.end());
    }

private:
    GX_COLD void expect_fits(const Checkpoint& c, std::size_t elements) {
        expect_kept(c.optimizer.size(), optimizer.state().size() / elements,
                    "vectors of the optimizer");
        expect_kept(c.reducer.size(), pipeline.reducer().state().size(), "numbers of the reducer");
        expect_kept(c.pending.size(),
                    std::min(std::size_t(c.step), std::size_t(Pipeline::staleness)),
                    "gradients on their way (none after a run's last epoch)");
        expect_kept(device.statistics().size(), c.statistics.size(), "running statistics");
    }
};
template <class D, class O, class P, class S>
RankState(const Graph&, D&, O&, P&, S&, std::vector<float>&) -> RankState<D, O, P, S>;

}  // namespace gx::detail::trainer
