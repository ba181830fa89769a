// Batch norm: channels brought to mean 0 and variance 1, by batch or running figures.
#pragma once

#include <algorithm>  // max
#include <cmath>      // sqrt
#include <cstdint>    // int64_t

#include <gx/reference/maps.hpp>  // ReadMaps, WriteMaps

namespace gx::reference {

/// Mean and variance of one channel; `count` values went into them.
struct Moments {
    double mean = 0;
    double variance = 0;  ///< the sum of squared deviations over count: biased
    std::int64_t count = 0;
};

/// Order: n, then y, then x; the mean first, then the deviations from it.
/// Errors: no images breaks nothing and gives 0, 0.
[[nodiscard]] inline Moments channel_moments(ReadMaps x, int c) {
    const std::int64_t count = std::int64_t{x.images} * x.shape.height * x.shape.width;
    Moments m{.count = count};
    if (count == 0) return m;
    const auto sum = [&](auto term) {
        double total = 0;
        for (int n = 0; n < x.images; ++n)
            for (int i = 0; i < x.shape.height; ++i)
                for (int j = 0; j < x.shape.width; ++j) total += term(x(n, c, i, j));
        return total;
    };
    m.mean = sum([](double v) { return v; }) / static_cast<double>(count);
    m.variance =
        sum([&](double v) { return (v - m.mean) * (v - m.mean); }) / static_cast<double>(count);
    return m;
}

/// running = (1 - momentum) * running + momentum * batch, in double, rounded to float.
/// The running variance takes the unbiased one, times count / (count - 1); a batch of one value a
/// channel has none, and its variance of 0 is taken as it is.
inline void update_running(const Moments& batch, double momentum, float& mean, float& variance) {
    const auto fewer = static_cast<double>(std::max<std::int64_t>(batch.count - 1, 1));
    const double unbiased = batch.variance * static_cast<double>(batch.count) / fewer;
    mean = static_cast<float>((1 - momentum) * double{mean} + momentum * batch.mean);
    variance = static_cast<float>((1 - momentum) * double{variance} + momentum * unbiased);
}

/// y = gamma * (x - mean) / sqrt(variance + epsilon) + beta, for channel c.
inline void normalise(ReadMaps x, int c, const Moments& m, double epsilon, double gamma,
                      double beta, WriteMaps y) {
    const double inverse = 1 / std::sqrt(m.variance + epsilon);
    for (int n = 0; n < x.images; ++n)
        for (int i = 0; i < x.shape.height; ++i)
            for (int j = 0; j < x.shape.width; ++j)
                y(n, c, i, j) = gamma * ((x(n, c, i, j) - m.mean) * inverse) + beta;
}

/// Adds to dx, dgamma and dbeta what dy contributes, for channel c normalised by its own moments.
///
///     h      = (x - mean) / sqrt(variance + epsilon)
///     dbeta  = sum of dy;   dgamma = sum of dy * h
///     dx     = gamma / sqrt(variance + epsilon) * (dy - dbeta / count - h * dgamma / count)
///
/// Order:  n, then y, then x.
/// Source: Ioffe and Szegedy 2015, arXiv:1502.03167, section 3, the six equations joined.
inline void normalise_backward(ReadMaps x, int c, double epsilon, double gamma, ReadMaps dy,
                               WriteMaps dx, double& dgamma, double& dbeta) {
    const Moments m = channel_moments(x, c);
    const auto count = static_cast<double>(m.count);
    const double inverse = 1 / std::sqrt(m.variance + epsilon);
    const auto for_each = [&](auto visit) {
        for (int n = 0; n < x.images; ++n)
            for (int i = 0; i < x.shape.height; ++i)
                for (int j = 0; j < x.shape.width; ++j)
                    visit((x(n, c, i, j) - m.mean) * inverse, dy(n, c, i, j), dx(n, c, i, j));
    };
    double sum = 0, projection = 0;
    for_each([&](double h, double d, double&) {
        sum += d;
        projection += d * h;
    });
    for_each([&](double h, double d, double& to) {
        to += gamma * inverse * (d - sum / count - h * projection / count);
    });
    dbeta += sum;
    dgamma += projection;
}

}  // namespace gx::reference
