// adamw_step, lars_step: one update by the formulas of the papers, on any number type.
#pragma once

#include <cmath>    // sqrt, pow
#include <cstdint>  // int64_t
#include <limits>   // infinity
#include <span>     // tensors

#include <gx/core/contract.hpp>      // GX_EXPECT
#include <gx/reference/rounded.hpp>  // Rounded

namespace gx::reference {

/// An element that AdamW moves. T: double, or Rounded for the bound of float arithmetic too.
template <class T>
struct AdamWElement {
    T w{}, m{}, v{};
};
struct AdamWOptions {
    float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f, decay = 0;
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

/// Loshchilov and Hutter 2019, algorithm 2, with one rate: line 6 to 12 for t = step + 1.
template <class T>
void adamw_step(AdamWElement<T>& x, T gradient, float rate, std::int64_t step,
                const AdamWOptions& o) {
    using detail::as_float;
    using detail::exact;
    using std::sqrt;
    const double t = static_cast<double>(step + 1);
    x.m = exact<T>(o.beta1) * x.m + as_float<T>(1 - double{o.beta1}) * gradient;
    x.v = exact<T>(o.beta2) * x.v + as_float<T>(1 - double{o.beta2}) * (gradient * gradient);
    const T m = x.m / as_float<T>(1 - std::pow(double{o.beta1}, t));
    const T v = x.v / as_float<T>(1 - std::pow(double{o.beta2}, t));
    const T move = m / (sqrt(v) + exact<T>(o.epsilon)) + exact<T>(o.decay) * x.w;
    x.w = x.w - exact<T>(rate) * move;
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
