// Update rules of one element: what optimizers apply on hosts, and kernels on GPUs.
#pragma once

namespace gx::detail::optimizer {

// Each product and sum is rounded on its own: compile with -ffp-contract=off (nvcc -fmad=false)
// where the target has fused multiply-add.

struct SgdRule {
    float unscale, decay, momentum, rate;

    /// `rate_in_velocity`: v holds steps, and not gradients.
    template <bool nesterov, bool rate_in_velocity = false>
    [[gnu::always_inline]] constexpr void update(float& w, const float& g, float& v) const {
        float gradient = g * unscale + decay * w;
        if constexpr (rate_in_velocity) {
            gradient = rate * gradient;
            v = momentum * v + gradient;
            w = w - (nesterov ? gradient + momentum * v : v);
        } else {
            v = momentum * v + gradient;
            w = w - rate * (nesterov ? gradient + momentum * v : v);
        }
    }
};

/// Adam, AdamW and Lamb. In three steps, because a loop over sqrt is not vectorised.
struct AdamRule {
    float unscale, rate, beta1, rest1, beta2, rest2, correction1, correction2, epsilon;
    float decay = 0;

    /// Returns what the square root is taken of. `coupled`: the decay goes through the moments.
    template <bool coupled = false>
    [[gnu::always_inline]] constexpr float moments(const float& w, const float& g, float& m,
                                                   float& v) const {
        const float gradient = coupled ? g * unscale + decay * w : g * unscale;
        m = beta1 * m + rest1 * gradient;
        v = beta2 * v + rest2 * (gradient * gradient);
        return v / correction2;
    }
    /// The update before its rate, given that root.
    template <bool coupled = false>
    [[gnu::always_inline]] constexpr float direction(const float& w, const float& m,
                                                     float root) const {
        const float move = m / correction1 / (root + epsilon);
        return coupled ? move : move + decay * w;
    }
    template <bool coupled = false>
    [[gnu::always_inline]] constexpr void move(float& w, const float& m, float root) const {
        w = w - rate * direction<coupled>(w, m, root);
    }
};

/// `rate` is that of the parameter: the run's times the trust ratio.
struct LarsRule {
    float unscale, decay, momentum, rate;

    [[gnu::always_inline]] constexpr void update(float& w, const float& g, float& v) const {
        const float gradient = g * unscale + decay * w;
        v = momentum * v + rate * gradient;
        w = w - v;
    }
};

}  // namespace gx::detail::optimizer
