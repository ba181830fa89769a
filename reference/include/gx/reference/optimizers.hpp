// sgd_step, adamw_step, lamb_step, lars_step: one update by the papers' formulas, on any numbers.
#pragma once

#include <algorithm>    // min
#include <cmath>        // sqrt, pow
#include <cstdint>      // int64_t
#include <limits>       // infinity
#include <span>         // tensors
#include <type_traits>  // is_same_v
#include <vector>       // updates

#include <gx/core/contract.hpp>      // GX_EXPECT
#include <gx/reference/rounded.hpp>  // Rounded

namespace gx::reference {

struct SgdOptions {
    float momentum = 0.9f, decay = 0;
    bool nesterov = false, rate_in_velocity = false;
};

/// Goyal et al. 2017, equations 9 (rate_in_velocity) and 10; with nesterov Bengio et al. 2012,
/// equations 6 and 7, or the same with the rate outside.
template <class T>
void sgd_step(T& w, T& v, T gradient, float rate, const SgdOptions& o) {
    const T momentum(o.momentum), factor(rate);
    T g = gradient + T(o.decay) * w;
    if (o.rate_in_velocity) g = factor * g;
    v = momentum * v + g;
    const T step = o.nesterov ? g + momentum * v : v;
    w = o.rate_in_velocity ? w - step : w - factor * step;
}

/// An element that Adam, AdamW or Lamb moves. T: double, or Rounded for the bound of float
/// arithmetic too.
template <class T>
struct AdamWElement {
    T w{}, m{}, v{};
};
struct AdamWOptions {
    float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f, decay = 0;
    bool coupled = false;   ///< Adam: the decay goes through the moments
    bool corrected = true;  ///< moments are divided by 1 - beta^t
};

namespace detail {
/// x in T, rounded to float where T follows float arithmetic.
template <class T>
[[nodiscard]] T as_float(double x) {
    if constexpr (std::is_same_v<T, Rounded>) return Rounded(x, 0).rounded();
    else return x;
}
template <class T>
[[nodiscard]] T exact(float x) {
    return T{x};
}
}  // namespace detail

/// Loshchilov and Hutter 2019, algorithm 2, lines 6 to 12 for t = step + 1: moves the moments, and
/// returns what is multiplied by the rate.
template <class T>
[[nodiscard]] T adamw_direction(AdamWElement<T>& x, T gradient, std::int64_t step,
                                const AdamWOptions& o) {
    using detail::as_float;
    using detail::exact;
    using std::sqrt;
    const double t = static_cast<double>(step + 1);
    const auto correction = [&](float beta) {
        return as_float<T>(o.corrected ? 1 - std::pow(double{beta}, t) : 1);
    };
    const T decay = exact<T>(o.decay) * x.w;
    if (o.coupled) gradient = gradient + decay;
    x.m = exact<T>(o.beta1) * x.m + as_float<T>(1 - double{o.beta1}) * gradient;
    x.v = exact<T>(o.beta2) * x.v + as_float<T>(1 - double{o.beta2}) * (gradient * gradient);
    const T m = x.m / correction(o.beta1), v = x.v / correction(o.beta2);
    const T move = m / (sqrt(v) + exact<T>(o.epsilon));
    return o.coupled ? move : move + decay;
}
template <class T>
void adamw_step(AdamWElement<T>& x, T gradient, float rate, std::int64_t step,
                const AdamWOptions& o) {
    x.w = x.w - detail::exact<T>(rate) * adamw_direction(x, gradient, step, o);
}

struct LarsOptions {
    float momentum = 0.9f, decay = 0, trust = 0.001f, epsilon = 0;
    bool adapts = true;  ///< false: ratio 1 and no decay
};

namespace detail {
/// The norm of a tensor; the error of a norm is at most the norm of the errors.
[[nodiscard]] inline double norm(std::span<const double> x) {
    double sum = 0;
    for (const double each : x) sum += each * each;
    return std::sqrt(sum);
}
[[nodiscard]] inline Rounded norm(std::span<const Rounded> x) {
    double values = 0, errors = 0;
    for (const Rounded& each : x) {
        values += each.value * each.value;
        errors += each.error * each.error;
    }
    return {std::sqrt(values), std::sqrt(errors)};
}
/// rate * ratio in double, rounded to float once.
[[nodiscard]] inline double local_rate(double w, double g, float rate, const LarsOptions& o) {
    const double below = g + double{o.decay} * w + double{o.epsilon};
    return w == 0 || below == 0 ? double{rate} : double{rate} * double{o.trust} * w / below;
}
[[nodiscard]] inline Rounded local_rate(Rounded w, Rounded g, float rate, const LarsOptions& o) {
    const double value = local_rate(w.value, g.value, rate, o);
    const double below = g.value + double{o.decay} * w.value + double{o.epsilon};
    if (w.value == 0 || below == 0) return {value, 0};
    // d/dw of w / (g + decay w + epsilon) is (g + epsilon) / below^2 <= 1 / below, and d/dg is
    // -w / below^2; both at the point of the errors' box that makes them largest.
    const double least = below - g.error - double{o.decay} * w.error;
    if (!(least > 0)) return {value, std::numeric_limits<double>::infinity()};
    const double slope = std::abs(double{rate} * double{o.trust});
    const double error =
        slope * (w.error / least + (w.value + w.error) * g.error / (least * least));
    return Rounded(value, error).rounded();
}
}  // namespace detail

struct LambOptions {
    AdamWOptions moments{};  ///< their decay, where it adapts
    float max_ratio = 0;     ///< 0: no bound
    bool adapts = true;      ///< false: ratio 1 and no decay
};

namespace detail {
/// rate * ratio in double, rounded to float once.
[[nodiscard]] inline double lamb_rate(double w, double u, float rate, float max_ratio) {
    const double ratio = w == 0 || u == 0 ? 1 : w / u;
    return double{rate} * (max_ratio > 0 ? std::min(ratio, double{max_ratio}) : ratio);
}
[[nodiscard]] inline Rounded lamb_rate(Rounded w, Rounded u, float rate, float max_ratio) {
    const double value = lamb_rate(w.value, u.value, rate, max_ratio);
    if (w.value == 0 || u.value == 0) return {value, 0};
    const double least = u.value - u.error;
    if (!(least > 0)) return {value, std::numeric_limits<double>::infinity()};
    const double error =  // of w / u; a bound on the ratio makes it no larger
        std::abs(double{rate}) * (w.error + w.value / u.value * u.error) / least;
    return Rounded(value, error).rounded();
}
}  // namespace detail

/// You et al. 2020, algorithm 2 with phi(z) = z, for one parameter tensor.
template <class T>
void lamb_step(std::span<AdamWElement<T>> x, std::span<const T> gradient, float rate,
               std::int64_t step, const LambOptions& o) {
    GX_EXPECT(x.size() == gradient.size(), "tensors of one length");
    AdamWOptions moments = o.moments;
    if (!o.adapts) moments.decay = 0;
    std::vector<T> w, u;
    for (std::size_t i = 0; i < x.size(); ++i) {
        w.push_back(x[i].w);
        u.push_back(adamw_direction(x[i], gradient[i], step, moments));
    }
    const T local = o.adapts
                        ? detail::lamb_rate(detail::norm(std::span<const T>(w)),
                                            detail::norm(std::span<const T>(u)), rate, o.max_ratio)
                        : detail::exact<T>(rate);
    for (std::size_t i = 0; i < x.size(); ++i) x[i].w = x[i].w - local * u[i];
}

/// You, Gitman and Ginsburg 2017, algorithm 1: local rate by equation 6, then momentum, for one
/// parameter tensor w with velocity v.
/// Shapes: equal lengths.
template <class T>
void lars_step(std::span<T> w, std::span<T> v, std::span<const T> gradient, float rate,
               const LarsOptions& o) {
    GX_EXPECT(w.size() == v.size() && w.size() == gradient.size(), "tensors of one length");
    using detail::exact;
    const T local = o.adapts ? detail::local_rate(detail::norm(std::span<const T>(w)),
                                                  detail::norm(gradient), rate, o)
                             : exact<T>(rate);
    const T decay = exact<T>(o.adapts ? o.decay : 0.0f);
    for (std::size_t i = 0; i < w.size(); ++i) {
        v[i] = exact<T>(o.momentum) * v[i] + local * (gradient[i] + decay * w[i]);
        w[i] = w[i] - v[i];
    }
}

}  // namespace gx::reference
