// loss: softmax cross-entropy with label smoothing over the logits of a chunk.
#pragma once

#include <algorithm>  // fill
#include <cmath>      // exp, log
#include <cstddef>    // size_t
#include <cstdint>    // int64_t

#include <gx/core/trivial_vector.hpp>    // of each image
#include <gx/onednn/detail/layout.hpp>   // Layout
#include <gx/onednn/detail/numbers.hpp>  // widen, narrow
#include <gx/onednn/detail/program.hpp>  // Step

namespace gx::onednn::detail {

struct Loss {
    Layout layout{};
    int classes = 0;
    double smoothing = 0;
    const Buffer* logits = nullptr;
    Buffer* gradient = nullptr;
    TrivialVector<double> losses{};              // of each image
    TrivialVector<std::uint8_t> hits{}, top5{};  // of each image: the label is first, among five

    /// The logit of a class in an image's row.
    template <class E>
    [[nodiscard]] double logit(const E* row, int k) const {
        return static_cast<double>(widen(row[layout.index(k)]));
    }
    /// log of the sum of exponentials of a row, and its largest logit's class.
    template <class E>
    [[nodiscard]] double log_sum(const E* row, int& best) const {
        best = 0;
        for (int k = 1; k < classes; ++k)
            if (logit(row, k) > logit(row, best)) best = k;
        const double most = logit(row, best);
        double sum = 0;
        for (int k = 0; k < classes; ++k)
            sum += std::exp(logit(row, k) - most);  // keeps exp() finite
        return most + std::log(sum);
    }
};

class LossStep : public Step {
public:
    explicit LossStep(Loss& loss) : l_(loss) {}
    void run(const Run& run, const Place& at) override {
        with_number(l_.logits->type, [&]<class E>(E) { sum<E>(run, at); });
    }

private:
    template <class E>
    void sum(const Run& run, const Place& at) {
        for (int n = at.first; n < at.first + at.count; ++n) {
            const auto i = static_cast<std::size_t>(n);
            const E* row = l_.logits->image_of<E>(n);
            int best = 0;
            const double log_sum = l_.log_sum(row, best);
            const int first = run.batch.labels[i];
            const SecondLabel second = run.batch.second_labels[i];
            const int label = counted_label(first, second);
            double all = 0;
            for (int k = 0; k < l_.classes; ++k) all += log_sum - l_.logit(row, k);
            double at_label = log_sum - l_.logit(row, first);
            if (second.share > 0)
                at_label = mixed(at_label, log_sum - l_.logit(row, second.label), second.share);
            l_.losses[i] = (1 - l_.smoothing) * at_label;
            if (l_.smoothing > 0) l_.losses[i] += l_.smoothing / l_.classes * all;
            l_.hits[i] = best == label ? 1 : 0;
            l_.top5[i] = before(row, label) < 5 ? 1 : 0;
        }
    }
    [[nodiscard]] static double mixed(double first, double second, double share) {
        return share < 1 ? (1 - share) * first + share * second : second;  // 0 * inf would be NaN
    }
    /// Classes of larger logits, or of equal ones and lower numbers.
    template <class E>
    [[nodiscard]] int before(const E* row, int label) const {
        const double at_label = l_.logit(row, label);
        int count = 0;
        for (int k = 0; k < l_.classes; ++k) {
            const double x = l_.logit(row, k);
            count += x > at_label || (x == at_label && k < label);
        }
        return count;
    }

    Loss& l_;
};

/// scale * (softmax - target).
class LossGradientStep : public Step {
public:
    explicit LossGradientStep(const Loss& loss) : l_(loss) {}
    void run(const Run& run, const Place& at) override {
        with_number(l_.logits->type, [&]<class E>(E) { store<E>(run, at); });
    }

private:
    template <class E>
    void store(const Run& run, const Place& at) {
        for (int n = at.first; n < at.first + at.count; ++n) {
            const E* row = l_.logits->image_of<E>(n);
            E* gradient = l_.gradient->image_of<E>(n);
            std::fill(gradient, gradient + l_.layout.floats(), E{});
            int best = 0;
            const double log_sum = l_.log_sum(row, best);
            const int label = run.batch.labels[static_cast<std::size_t>(n)];
            const SecondLabel second = run.batch.second_labels[static_cast<std::size_t>(n)];
            const double of_second = static_cast<double>(second.share);
            for (int k = 0; k < l_.classes; ++k) {
                const double share =
                    (k == label ? 1 - of_second : 0.0) + (k == second.label ? of_second : 0.0);
                const double target = l_.smoothing / l_.classes + (1 - l_.smoothing) * share;
                const double p = std::exp(l_.logit(row, k) - log_sum);
                gradient[l_.layout.index(k)] =
                    narrow<E>(static_cast<float>(static_cast<double>(run.scale) * (p - target)));
            }
        }
    }
    const Loss& l_;
};

}  // namespace gx::onednn::detail
