// ErrorFeedback<R>, StochasticRounding<R>: small lossy reducers with state, for tests.
#pragma once

#include <bit>      // bit_cast
#include <cmath>    // isfinite
#include <cstdint>  // int64_t
#include <span>     // bucket
#include <string>   // name
#include <vector>   // residual

#include <gx/core/rng.hpp>          // Rng
#include <gx/reducer/accuracy.hpp>  // Accuracy
#include <gx/reducer/name.hpp>      // reducer_name
#include <gx/testing/mutant.hpp>    // Mutant

namespace gx::testing {

/// x with its significand cut to 3 bits, towards 0.
[[nodiscard]] constexpr float coarse(float x) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xffe00000u);
}

/// Error feedback around R: sends a coarse part of gradient + residual, keeps the rest.
///
///     v = gradient + residual, sent = coarse(v), residual = v - sent (exact)
///
/// The residual is per rank, in the order of the bucket, and is all of state(); a gradient is
/// reduced as one bucket. A value that is not finite is sent and leaves a residual of 0.
/// Source: Seide et al. 2014, 1-bit SGD; Karimireddy et al. 2019, arXiv:1901.09847.
template <Reducer R>
class ErrorFeedback : public Mutant<R> {
public:
    static constexpr Accuracy accuracy = Accuracy::error_feedback;
    static constexpr bool state_is_a_gradient = true;  ///< one flat vector in the gradient's layout
    [[nodiscard]] static std::string name() { return "ErrorFeedback<" + reducer_name<R>() + ">"; }
    void reserve(Placement placement, std::int64_t elements) {
        this->inner_.reserve(placement, elements);
        residual_.assign(static_cast<std::size_t>(elements), 0.0f);
    }
    ReduceReport all_reduce(Transport auto& link, std::span<float> bucket) {
        for (std::size_t i = 0; i < bucket.size(); ++i) {
            const float v = bucket[i] + residual_[i];
            bucket[i] = std::isfinite(v) ? coarse(v) : v;
            residual_[i] = std::isfinite(v) ? v - bucket[i] : 0.0f;
        }
        return this->inner_.all_reduce(link, bucket);
    }
    std::span<float> state() { return residual_; }

protected:
    std::vector<float> residual_{};
};

/// Seeded bug: keeps no residual, so what is cut is lost.
template <Reducer R>
struct ForgetResidual : ErrorFeedback<R> {
    ReduceReport all_reduce(Transport auto& link, std::span<float> bucket) {
        const ReduceReport report = ErrorFeedback<R>::all_reduce(link, bucket);
        this->residual_.assign(this->residual_.size(), 0.0f);
        return report;
    }
};

/// Seeded bug: divides the residual by the rank count, as if it were the mean's.
template <Reducer R>
struct ShareResidual : ErrorFeedback<R> {
    ReduceReport all_reduce(Transport auto& link, std::span<float> bucket) {
        const ReduceReport report = ErrorFeedback<R>::all_reduce(link, bucket);
        for (float& x : this->residual_) x /= static_cast<float>(link.ranks());
        return report;
    }
};

/// Unbiased rounding to 3 bits of significand around R: away from 0 with the probability of the
/// part cut. Biased = true is a seeded bug: always towards 0. State: the number of calls.
template <Reducer R, bool Biased = false>
class StochasticRounding : public Mutant<R> {
public:
    static constexpr Accuracy accuracy = Accuracy::unbiased;
    [[nodiscard]] static std::string name() {
        return "StochasticRounding<" + reducer_name<R>() + ">";
    }
    ReduceReport all_reduce(Transport auto& link, std::span<float> bucket) {
        const Rng rng = Rng(static_cast<std::uint64_t>(calls_[0]), "stochastic rounding")
                            .at(static_cast<std::uint64_t>(link.rank()));
        calls_[0] += 1;
        for (std::size_t i = 0; i < bucket.size(); ++i) {
            if (!std::isfinite(bucket[i])) continue;
            const float low = coarse(bucket[i]);
            const float high = std::bit_cast<float>(std::bit_cast<std::uint32_t>(low) + 0x200000u);
            const float share = (bucket[i] - low) / (high - low);
            bucket[i] = !Biased && rng.uniform(i) < share ? high : low;
        }
        return this->inner_.all_reduce(link, bucket);
    }
    std::span<float> state() { return calls_; }

private:
    float calls_[1] = {0};
};

}  // namespace gx::testing
