// Loss: softmax cross-entropy against labels softened by smoothing.
#pragma once

#include <algorithm>  // max
#include <cmath>      // exp, log

#include <gx/core/device.hpp>     // SecondLabel
#include <gx/reference/maps.hpp>  // ReadMaps, WriteMaps

namespace gx::reference {

/// Log of the sum of exp(logits of image n).
/// Order: the largest is taken out first, which keeps exp() finite; then classes upwards.
[[nodiscard]] inline double log_sum_exp(ReadMaps logits, int n) {
    double largest = logits(n, 0, 0, 0);
    for (int k = 1; k < logits.shape.channels; ++k) largest = std::max(largest, logits(n, k, 0, 0));
    double sum = 0;
    for (int k = 0; k < logits.shape.channels; ++k) sum += std::exp(logits(n, k, 0, 0) - largest);
    return largest + std::log(sum);
}

/// An image's label, and of a mixed image the second one.
struct Labels {
    int first = 0;
    SecondLabel second{};
    Labels(int label, SecondLabel s = {}) : first(label), second(s) {}  // implicit: one label
};

/// The share of class k in an image's target: smoothing / C everywhere, and the rest at the labels.
[[nodiscard]] inline double target(int k, Labels labels, int classes, double smoothing) {
    const double of_second = labels.second.share;
    const double share =
        (k == labels.first ? 1 - of_second : 0.0) + (k == labels.second.label ? of_second : 0.0);
    return smoothing / classes + (1 - smoothing) * share;
}

/// - sum over k of target[k] * log softmax(logits[n, :])[k].
/// Units:  nats.
/// Errors: a logit of +inf, or a NaN, gives NaN.
/// Order:  classes upwards.
/// Source: Szegedy et al. 2015, arXiv:1512.00567, section 7.
[[nodiscard]] inline double cross_entropy(ReadMaps logits, int n, Labels labels, double smoothing) {
    const int classes = logits.shape.channels;
    const double log_sum = log_sum_exp(logits, n);
    double loss = 0;
    for (int k = 0; k < classes; ++k) {
        const double share = target(k, labels, classes, smoothing);
        if (share > 0) loss += share * (log_sum - logits(n, k, 0, 0));  // 0 * inf would be NaN
    }
    return loss;
}

/// The class of the largest logit; of equal ones the lowest.
[[nodiscard]] inline int predicted(ReadMaps logits, int n) {
    int best = 0;
    for (int k = 1; k < logits.shape.channels; ++k)
        if (logits(n, k, 0, 0) > logits(n, best, 0, 0)) best = k;
    return best;
}

/// Classes in front of `label` when logits are sorted downwards, equal ones by class: 0 for
/// predicted(), below 5 for a label among the top five.
[[nodiscard]] inline int place_of(ReadMaps logits, int n, int label) {
    int before = 0;
    for (int k = 0; k < logits.shape.channels; ++k) {
        const double x = logits(n, k, 0, 0), at_label = logits(n, label, 0, 0);
        before += x > at_label || (x == at_label && k < label);
    }
    return before;
}

/// Adds to dlogits[n, :] the gradient of cross_entropy: softmax - target.
inline void cross_entropy_backward(ReadMaps logits, int n, Labels labels, double smoothing,
                                   WriteMaps dlogits) {
    const int classes = logits.shape.channels;
    const double log_sum = log_sum_exp(logits, n);
    for (int k = 0; k < classes; ++k)
        dlogits(n, k, 0, 0) +=
            std::exp(logits(n, k, 0, 0) - log_sum) - target(k, labels, classes, smoothing);
}

}  // namespace gx::reference
