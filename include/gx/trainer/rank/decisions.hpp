// Decisions: what a run decides from reduced values, on the device that holds them; Outcome.
#pragma once

#include <concepts>     // same_as
#include <cstdint>      // int64_t
#include <span>         // views
#include <string_view>  // names

#include <gx/core/device.hpp>           // ForwardReport
#include <gx/trainer/rank/outcome.hpp>  // Outcome
#include <gx/memory/queue.hpp>          // DeviceKernel
#include <gx/optimizer/concept.hpp>     // UpdateArgs
#include <gx/optimizer/finite.hpp>      // all_finite

namespace gx::detail::trainer {

template <class Scale>
[[nodiscard]] constexpr bool at_floor(const Scale& scale) {
    if constexpr (requires {
                      { scale.at_floor() } -> std::same_as<bool>;
                  })
        return scale.at_floor();
    else return true;
}

/// Equal on all ranks, since all decide from the same bits. Lies in the memory of the device: the
/// host learns it when it reads an Outcome.
template <class Scale>
struct Decisions {
    Scale scale;
    float factor = 1;                 ///< of the present step's loss
    bool applied = true;              ///< the last mean
    std::int64_t updates = 0;         ///< gradients applied
    std::int64_t skipped = 0;         ///< gradients not applied, since they overflowed
    std::int64_t skips_in_a_row = 0;  ///< at the floor of the loss scale
};

// Kernels, for D = Decisions<...>, each on one D. Those that are constexpr run on GPUs as they are.

/// Fixes the loss scale of a gradient, for `of_all` images over `ranks` ranks.
template <class D>
struct BeginStep {
    static constexpr std::string_view name = "begin step";
    float ranks, of_all;
    constexpr void operator()(std::span<D> d, std::span<float> scale) const {
        scale[0] = d[0].scale.scale();
        d[0].factor = d[0].scale.scale() * ranks / of_all;
    }
};

/// What follows from whether a gradient is applied; the loss scale learns of it.
template <class D>
constexpr void decide(D& d, bool applied) {
    d.applied = applied;
    d.scale.learn(d.applied);
    if (d.applied) {
        d.skips_in_a_row = 0;
        return;
    }
    ++d.skipped;
    ++d.skips_in_a_row;
    if (!at_floor(d.scale)) d.skips_in_a_row = 0;
}

/// Whether a mean is applied.
template <class D>
struct Decide {
    static constexpr std::string_view name = "decide";
    void operator()(std::span<const float> mean, std::span<D> decisions,
                    std::span<Flag> applied) const {
        decide(decisions[0], all_finite(mean));
        applied[0] = decisions[0].applied;
    }
};

/// Counts this rank against the step where a part of its means is not finite.
struct FindOverflow {
    static constexpr std::string_view name = "find overflow";
    void operator()(std::span<const float> part, std::span<float> against) const {
        if (!all_finite(part)) against[0] = 1;
    }
};

/// Whether the means of all ranks are applied, given how many ranks are against it.
template <class D>
struct DecideTogether {
    static constexpr std::string_view name = "decide together";
    constexpr void operator()(std::span<const float> against, std::span<D> decisions,
                              std::span<Flag> applied) const {
        decide(decisions[0], against[0] == 0);
        applied[0] = decisions[0].applied;
    }
};

/// Arguments of the update of which `queued`, a kernel, holds what is the same in each step.
template <class Queued>
[[nodiscard]] UpdateArgs update_args(const Queued& queued, std::span<float> parameters,
                                     std::span<const float> gradients, std::span<float> state,
                                     float scale, float rate, std::int64_t step) {
    return {.parameters = parameters,
            .gradients = gradients,
            .state = state,
            .slices = {queued.slices, queued.slice_count},
            .rate = rate,
            .unscale = 1.0f / scale,
            .step = step};
}

/// One update of optimizer O by a mean, unless it is skipped; with the norms of whole parameters,
/// if they are given. `counts_skipped`: a skipped update keeps its number.
template <class O, class D, bool counts_skipped = false>
struct Update {
    static constexpr std::string_view name = "update";
    O* optimizer;
    const ParameterSlice* slices;
    std::size_t slice_count;
    void operator()(std::span<float> parameters, std::span<const float> mean, float scale,
                    float rate, std::span<float> state, std::span<D> decisions,
                    auto... norms) const {
        D& d = decisions[0];
        if (counts_skipped && !d.applied) ++d.updates;
        if (!d.applied) return;
        const UpdateArgs args = update_args(*this, parameters, mean, state, scale, rate, d.updates);
        if constexpr (sizeof...(norms) == 0) optimizer->update(args);
        else optimizer->update_with(args, norms...);
        ++d.updates;
    }
};

/// Adds the norms of this rank's parts, whether or not the update is skipped.
template <class O, class D>
struct AddNorms {
    static constexpr std::string_view name = "norms";
    O* optimizer;
    const ParameterSlice* slices;
    std::size_t slice_count;
    void operator()(std::span<float> parameters, std::span<const float> mean, float scale,
                    std::span<float> state, std::span<const D> decisions,
                    std::span<typename O::Norms> norms) const {
        if (slice_count == 0) return;
        const std::int64_t step = decisions[0].updates;
        optimizer->add_norms(update_args(*this, parameters, mean, state, scale, 0, step), norms);
    }
};

/// Gathers what the host reads. `reports`: of the step's micro-batches, in their order.
template <class D>
struct RecordOutcome {
    static constexpr std::string_view name = "outcome";
    constexpr void operator()(std::span<const D> decisions, float scale,
                              std::span<const ForwardReport> reports,
                              std::span<Outcome> out) const {
        const D& d = decisions[0];
        ForwardReport sum;
        for (const ForwardReport& report : reports) sum += report;
        out[0] = {sum,
                  scale,
                  d.scale.scale(),
                  d.applied,
                  at_floor(d.scale),
                  d.skipped,
                  d.skips_in_a_row,
                  d.updates};
    }
};

}  // namespace gx::detail::trainer
