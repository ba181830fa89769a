// loss: softmax cross-entropy with label smoothing over the logits of a chunk.
#pragma once

#include <cmath>    // exp, log
#include <cstdint>  // int64_t

#include <gx/core/trivial_vector.hpp>    // of each image
#include <gx/onednn/detail/layout.hpp>   // Layout
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

    /// log of the sum of exponentials of a row, and its largest logit's class.
    [[nodiscard]] double log_sum(const float* row, int& best) const {
        best = 0;
        for (int k = 1; k < classes; ++k)
            if (row[layout.index(k)] > row[layout.index(best)]) best = k;
        const double most = static_cast<double>(row[layout.index(best)]);
        double sum = 0;
        for (int k = 0; k < classes; ++k)
            sum +=
                std::exp(static_cast<double>(row[layout.index(k)]) - most);  // keeps exp() finite
        return most + std::log(sum);
    }
};

class LossStep : public Step {
public:
    explicit LossStep(Loss& loss) : l_(loss) {}
    void run(const Run& run, const Place& at) override {
        for (int n = at.first; n < at.first + at.count; ++n) {
            const auto i = static_cast<std::size_t>(n);
            const float* row = l_.logits->image(n);
            int best = 0;
            const double log_sum = l_.log_sum(row, best);
            const int first = run.batch.labels[i];
            const SecondLabel second = run.batch.second_labels[i];
            const int label = counted_label(first, second);
            double all = 0;
            for (int k = 0; k < l_.classes; ++k)
                all += log_sum - static_cast<double>(row[l_.layout.index(k)]);
            const auto away = [&](int k) {
                return log_sum - static_cast<double>(row[l_.layout.index(k)]);
            };
            double at_label = away(first);
            if (second.share > 0) at_label = mixed(at_label, away(second.label), second.share);
            l_.losses[i] = (1 - l_.smoothing) * at_label;
            if (l_.smoothing > 0) l_.losses[i] += l_.smoothing / l_.classes * all;
            l_.hits[i] = best == label ? 1 : 0;
            l_.top5[i] = before(row, label) < 5 ? 1 : 0;
        }
    }

private:
    [[nodiscard]] static double mixed(double first, double second, double share) {
        return share < 1 ? (1 - share) * first + share * second : second;  // 0 * inf would be NaN
    }
    /// Classes of larger logits, or of equal ones and lower numbers.
    [[nodiscard]] int before(const float* row, int label) const {
        const float at_label = row[l_.layout.index(label)];
        int count = 0;
        for (int k = 0; k < l_.classes; ++k) {
            const float x = row[l_.layout.index(k)];
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
        for (int n = at.first; n < at.first + at.count; ++n) {
            const float* row = l_.logits->image(n);
            float* gradient = l_.gradient->image(n);
            std::fill(gradient, gradient + l_.layout.floats(), 0.0f);
            int best = 0;
            const double log_sum = l_.log_sum(row, best);
            const int label = run.batch.labels[static_cast<std::size_t>(n)];
            const SecondLabel second = run.batch.second_labels[static_cast<std::size_t>(n)];
            const double of_second = static_cast<double>(second.share);
            for (int k = 0; k < l_.classes; ++k) {
                const double share =
                    (k == label ? 1 - of_second : 0.0) + (k == second.label ? of_second : 0.0);
                const double target = l_.smoothing / l_.classes + (1 - l_.smoothing) * share;
                const double p = std::exp(static_cast<double>(row[l_.layout.index(k)]) - log_sum);
                gradient[l_.layout.index(k)] =
                    static_cast<float>(static_cast<double>(run.scale) * (p - target));
            }
        }
    }

private:
    const Loss& l_;
};

}  // namespace gx::onednn::detail
