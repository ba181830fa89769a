// Loss scaling: keeps small gradients above the wire's underflow, and skips steps that overflow.
#pragma once

#include <algorithm>  // min
#include <concepts>   // same_as
#include <cstdint>    // int64_t
#include <limits>     // finite

#include <gx/core/decl.hpp>      // GX_DECL
#include <gx/core/findings.hpp>  // Findings

namespace gx {

/// What a checkpoint keeps of a loss scale.
struct LossScaleState {
    float scale = 1;
    std::int64_t good_steps = 0;  ///< since the last change
};

/// A factor on the loss, divided out again before the update.
///
///     scale()         of the gradient that is computed now
///     learn(finite)   what became of one averaged gradient; called alike on every rank, because
///                     it is decided from reduced values
///     state(), restore(state)   for checkpoints
///
/// Optional:
///
///     at_floor()      whether the scale can't be lowered: steps skipped then will not mend; absent
///                     means always
///     static Findings check(const Options&)   what is wrong with them
template <class S>
concept LossScale = requires(S s, const S& c, bool finite) {
    typename S::Options;
    { c.scale() } -> std::same_as<float>;
    { s.learn(finite) } -> std::same_as<void>;
    { c.state() } -> std::same_as<LossScaleState>;
    { s.restore(LossScaleState{}) } -> std::same_as<void>;
};

template <class S>
consteval bool explain_loss_scale() {
    static_assert(LossScale<S>,
                  "gx: not a LossScale: one of 'Options', 'float scale() const', "
                  "'void learn(bool finite)', 'state() const', 'restore(LossScaleState)' is "
                  "missing. Fix: use gx::StaticLossScale or gx::DynamicLossScale.");
    return true;
}

/// One factor for the whole run; 1 leaves everything as it is. A step that overflows is skipped.
class StaticLossScale {
public:
    struct Options {
        float factor = 1.0f;  ///< a power of two loses no bits
    };
    StaticLossScale() : StaticLossScale(Options{}) {}
    explicit StaticLossScale(Options o);
    static constexpr Findings check(const Options& o) {
        return Findings{}.expect(o.factor >= std::numeric_limits<float>::min() &&
                                     o.factor <= std::numeric_limits<float>::max(),
                                 "StaticLossScale: factor must be above 0 and finite, and so must "
                                 "1 / factor, which gradients are multiplied by");
    }
    [[nodiscard]] constexpr float scale() const { return factor_; }
    constexpr void learn(bool) {}
    [[nodiscard]] LossScaleState state() const { return {.scale = factor_}; }
    void restore(LossScaleState) {}

private:
    float factor_;
};

/// Doubles after `growth_interval` good steps in a row, up to `largest`; halves at an overflow,
/// down to 1 or just below.
/// Units:  steps are optimiser steps, skipped ones included.
/// Source: Micikevicius et al. 2018, arXiv:1710.03740, section 3.2; the constants are those of
///         most mixed-precision trainers, but for a smaller start.
class DynamicLossScale {
public:
    struct Options {
        float initial = 1024.0f;
        float largest = 65536.0f * 256.0f;
        int growth_interval = 1000;
    };
    DynamicLossScale() : DynamicLossScale(Options{}) {}
    explicit DynamicLossScale(Options o);
    static constexpr Findings check(const Options& o) {
        return Findings{}
            .expect(o.initial >= std::numeric_limits<float>::min() && o.initial <= o.largest,
                    "DynamicLossScale: initial must be above 0 and at most largest, and 1 / "
                    "initial finite")
            .expect(o.largest <= std::numeric_limits<float>::max(),
                    "DynamicLossScale: largest must be finite")
            .expect(o.growth_interval > 0, "DynamicLossScale: growth_interval must be at least 1");
    }
    [[nodiscard]] constexpr float scale() const { return state_.scale; }
    [[nodiscard]] constexpr bool at_floor() const { return state_.scale <= 1.0f; }
    constexpr void learn(bool finite) {
        if (!finite) {
            state_ = {state_.scale > 1.0f ? state_.scale / 2 : state_.scale, 0};
        } else if (++state_.good_steps >= options_.growth_interval) {
            const float twice = state_.scale * 2;
            state_ = {twice <= options_.largest ? twice : state_.scale, 0};
        }
    }
    [[nodiscard]] LossScaleState state() const { return state_; }
    /// A run that is resumed with a smaller `largest` goes on from there.
    void restore(LossScaleState s) { state_ = {std::min(s.scale, options_.largest), s.good_steps}; }

private:
    Options options_;
    LossScaleState state_;
};

static_assert(LossScale<StaticLossScale> && LossScale<DynamicLossScale>);

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/impl/loss_scale.ipp>
#endif
