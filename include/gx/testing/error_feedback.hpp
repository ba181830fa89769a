// ErrorFeedback, StochasticRounding, RandomSparse, Ternary: small lossy reducers, for tests.
#pragma once

#include <algorithm>  // max
#include <atomic>     // seeds
#include <bit>        // bit_cast
#include <cmath>      // abs, copysign, isfinite
#include <cstddef>    // size_t
#include <cstdint>    // int64_t
#include <span>       // residual
#include <string>     // name
#include <utility>    // swap
#include <vector>     // residuals

#include <gx/core/rng.hpp>                      // Rng
#include <gx/reducer/accuracy.hpp>              // Accuracy
#include <gx/reducer/error_feedback_state.hpp>  // ErrorFeedbackState
#include <gx/reducer/name.hpp>                  // reducer_name
#include <gx/testing/mutant.hpp>                // Mutant

namespace gx::testing {

/// x with its significand cut to 3 bits, towards 0.
[[nodiscard]] constexpr float coarse(float x) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xffe00000u);
}

/// Leaves of x, a gradient times `loss_scale`, what error feedback sends, and returns the residual
/// behind it:
///
///     v = x / loss scale + residual, sent = coarse(v), residual = v - sent (exact)
///
/// A value that is not finite is sent.
[[nodiscard]] inline float cut(float& x, float residual, float loss_scale) {
    const float v = x / loss_scale + residual;
    const float sent = std::isfinite(v) ? coarse(v) : v;
    x = sent * loss_scale;
    return v - sent;
}

/// Error feedback around R: sends a coarse part of gradient + residual, keeps the rest.
///
/// The residual is per rank and is all of state().
/// Source: Seide et al. 2014, 1-bit SGD; Karimireddy et al. 2019, arXiv:1901.09847.
template <Reducer R>
class ErrorFeedback : public Mutant<R> {
public:
    static constexpr Accuracy accuracy = Accuracy::error_feedback;
    [[nodiscard]] static std::string name() { return "ErrorFeedback<" + reducer_name<R>() + ">"; }
    void reserve(const ReducePlan& plan) {
        this->inner_.reserve(plan);
        residual_.reserve(plan);
    }
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        cut(bucket);
        return this->inner_.all_reduce(link, bucket);
    }
    void settle(std::uint64_t gradient, bool applied) { residual_.settle(gradient, applied); }
    StateList state() { return residual_.state(); }

protected:
    /// Leaves in the bucket what is sent of it.
    void cut(const Bucket& bucket) {
        const auto [before, after] = residual_.of(bucket);
        for (std::size_t i = 0; i < bucket.size(); ++i)
            after[i] = testing::cut(bucket[i], before[i], bucket.loss_scale);
    }

    ErrorFeedbackState residual_{};
};

/// Seeded bug: keeps no residual, so what is cut is lost.
template <Reducer R>
struct ForgetResidual : ErrorFeedback<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const ReduceReport report = ErrorFeedback<R>::all_reduce(link, bucket);
        for (float& x : this->residual_.of(bucket).after) x = 0;
        return report;
    }
};

/// Seeded bug: gives 0 from element `From` of a bucket on, and keeps nothing of it.
template <Reducer R, std::size_t From>
struct ForgetBehind : ErrorFeedback<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const ReduceReport report = ErrorFeedback<R>::all_reduce(link, bucket);
        const auto after = this->residual_.of(bucket).after;
        for (std::size_t i = From; i < bucket.size(); ++i) bucket[i] = after[i] = 0;
        return report;
    }
};

/// Seeded bug: keeps the residual in the units of the gradient, times the loss scale that it had.
template <Reducer R>
struct IgnoreLossScale : ErrorFeedback<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        Bucket unscaled = bucket;
        unscaled.loss_scale = 1;
        return ErrorFeedback<R>::all_reduce(link, unscaled);
    }
};

/// Seeded bug: divides the residual by the rank count, as if it were the mean's.
template <Reducer R>
struct ShareResidual : ErrorFeedback<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const ReduceReport report = ErrorFeedback<R>::all_reduce(link, bucket);
        for (float& x : this->residual_.of(bucket).after) x /= static_cast<float>(link.ranks());
        return report;
    }
};

/// Seeded bug: sends nothing, and keeps all. The telescoping law holds.
template <Reducer R>
struct KeepAll : ErrorFeedback<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const auto [before, after] = this->residual_.of(bucket);
        for (std::size_t i = 0; i < bucket.size(); ++i) {
            const float v = bucket[i] / bucket.loss_scale + before[i];
            const bool kept = std::isfinite(v);
            after[i] = kept ? v : 0;
            bucket[i] = kept ? 0 : v;
        }
        return this->inner_.all_reduce(link, bucket);
    }
};

/// Seeded bug: keeps what is behind element `From` of a bucket. The telescoping law holds.
template <Reducer R, std::size_t From>
struct KeepBehind : ErrorFeedback<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const auto [before, after] = this->residual_.of(bucket);
        this->cut(bucket);
        for (std::size_t i = From; i < bucket.size(); ++i) {
            if (!std::isfinite(bucket[i])) continue;
            after[i] += bucket[i] / bucket.loss_scale;
            bucket[i] = 0;
        }
        return this->inner_.all_reduce(link, bucket);
    }
};

/// Seeded bug: keeps no residual at 5 and 8 ranks.
template <Reducer R>
struct ForgetAtSomeRanks : ErrorFeedback<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const ReduceReport report = ErrorFeedback<R>::all_reduce(link, bucket);
        if (link.ranks() != 5 && link.ranks() != 8) return report;
        for (float& x : this->residual_.of(bucket).after) x = 0;
        return report;
    }
};

/// Seeded bug: keeps all that the first rank has. The telescoping law holds.
template <Reducer R>
struct KeepFirstRank : KeepAll<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        if (link.rank() == 0) return KeepAll<R>::all_reduce(link, bucket);
        return ErrorFeedback<R>::all_reduce(link, bucket);
    }
};

/// Seeded bug: applies what the last rank sends; the others keep what it leaves of theirs. The
/// telescoping law holds.
template <Reducer R>
struct FollowLastRank : ErrorFeedback<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const auto [before, after] = this->residual_.of(bucket);
        const float share = link.rank() == link.ranks() - 1 ? float(link.ranks()) : 0;
        for (std::size_t i = 0; i < bucket.size(); ++i) {
            const float v = bucket[i] / bucket.loss_scale + before[i];
            const bool follows = std::isfinite(v);
            after[i] = follows ? v : 0;
            bucket[i] = follows ? coarse(v) * bucket.loss_scale * share : v;
        }
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        for (std::size_t i = 0; i < bucket.size(); ++i) after[i] -= bucket[i] / bucket.loss_scale;
        return report;
    }
};

/// Seeded bug: has a residual of one bucket's length for all buckets; state() names it as a
/// gradient, or does not.
template <Reducer R, bool is_gradient>
class KeepResidualOfOneBucket : public Mutant<R> {
public:
    static constexpr Accuracy accuracy = Accuracy::error_feedback;
    void reserve(const ReducePlan& plan) {
        this->inner_.reserve(plan);
        kept_.assign(static_cast<std::size_t>(plan.bucket_elements), 0);
        next_ = kept_;
    }
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        for (std::size_t i = 0; i < bucket.size(); ++i) {
            const std::size_t at = (static_cast<std::size_t>(bucket.offset) + i) % kept_.size();
            next_[at] = cut(bucket[i], kept_[at], bucket.loss_scale);
        }
        return this->inner_.all_reduce(link, bucket);
    }
    void settle(std::uint64_t, bool applied) {
        if (applied) kept_ = next_;
    }
    StateList state() {
        return {{.name = "residual", .values = kept_, .is_gradient = is_gradient}};
    }
    std::span<const float> residual() { return kept_; }

private:
    std::vector<float> kept_, next_;
};

/// Seeded bug: changes its one residual at once, and undoes a skipped step by what the residual was
/// before it, although the next gradient has changed it since.
template <Reducer R>
class UndoLaterGradients : public Mutant<R> {
public:
    static constexpr Accuracy accuracy = Accuracy::error_feedback;
    void reserve(const ReducePlan& plan) {
        this->inner_.reserve(plan);
        kept_.assign(static_cast<std::size_t>(plan.elements), 0);
        before_.assign(static_cast<std::size_t>(plan.in_flight), kept_);
    }
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        if (bucket.index == 0) before_[bucket.gradient % before_.size()] = kept_;
        for (std::size_t i = 0; i < bucket.size(); ++i) {
            float& kept = kept_[static_cast<std::size_t>(bucket.offset) + i];
            kept = cut(bucket[i], kept, bucket.loss_scale);
        }
        return this->inner_.all_reduce(link, bucket);
    }
    void settle(std::uint64_t gradient, bool applied) {
        if (!applied) kept_ = before_[gradient % before_.size()];
    }
    StateList state() { return {{.name = "residual", .values = kept_, .is_gradient = true}}; }

private:
    std::vector<float> kept_;
    std::vector<std::vector<float>> before_;  ///< of each gradient in flight
};

/// What reducers that draw have in common.
/// Order: draws by seed, gradient, rank and element, so that nothing is kept.
template <Reducer R>
class Drawing : public Mutant<R> {
public:
    static constexpr Accuracy accuracy = Accuracy::unbiased;
    void reserve(const ReducePlan& plan) {
        this->inner_.reserve(plan);
        seed_ = plan.seed;
    }

protected:
    /// Each finite element x becomes f(x, a draw from 0 to 1), one for each `block` of elements.
    void change(int rank, const Bucket& bucket, auto f, std::uint64_t block = 1) const {
        const Rng rng = Rng(seed_, "stochastic rounding")
                            .at(bucket.gradient)
                            .at(static_cast<std::uint64_t>(rank));
        const auto offset = static_cast<std::uint64_t>(bucket.offset);
        for (std::size_t i = 0; i < bucket.size(); ++i)
            if (std::isfinite(bucket[i]))
                bucket[i] = f(bucket[i], rng.uniform((offset + i) / block));
    }

private:
    std::uint64_t seed_ = 0;
};

/// Unbiased rounding to 3 bits of significand around R: away from 0 with the probability of the
/// part cut. Biased = true is a seeded bug: always towards 0.
template <Reducer R, bool Biased = false>
struct StochasticRounding : Drawing<R> {
    [[nodiscard]] static std::string name() {
        return "StochasticRounding<" + reducer_name<R>() + ">";
    }
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        this->change(link.rank(), bucket, [](float x, float draw) {
            const float low = coarse(x);
            const float high = std::bit_cast<float>(std::bit_cast<std::uint32_t>(low) + 0x200000u);
            return !Biased && draw < (x - low) / (high - low) ? high : low;
        });
        return this->inner_.all_reduce(link, bucket);
    }
};

/// Seeded bug: draws by a seed of its own, and not by the plan's.
template <Reducer R>
struct DrawByOwnSeed : StochasticRounding<R, false> {
    void reserve(ReducePlan plan) {
        plan.seed = 42;
        StochasticRounding<R, false>::reserve(plan);
    }
};

/// Seeded bug: draws by a seed that each reducer has anew, as from std::random_device.
template <Reducer R>
struct DrawByAnySeed : StochasticRounding<R, false> {
    void reserve(ReducePlan plan) {
        static std::atomic<std::uint64_t> made = 0;
        plan.seed = ++made;
        StochasticRounding<R, false>::reserve(plan);
    }
};

/// Sends one block of elements in 128, by chance, times 128, and 0 in place of others: unbiased.
template <Reducer R, std::uint64_t block = 1>
struct RandomSparse : Drawing<R> {
    [[nodiscard]] static std::string name() {
        return "RandomSparse<" + reducer_name<R>() + ", " + std::to_string(block) + ">";
    }
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        this->change(
            link.rank(), bucket,
            [](float x, float draw) { return draw < 1.0f / 128 ? 128 * x : 0; }, block);
        return this->inner_.all_reduce(link, bucket);
    }
};

/// Each element becomes 0 or the largest one's magnitude: unbiased, and seldom not 0.
/// Source: Wen et al. 2017, TernGrad, arXiv:1705.07878.
template <Reducer R>
struct Ternary : Drawing<R> {
    [[nodiscard]] static std::string name() { return "Ternary<" + reducer_name<R>() + ">"; }
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        float most = 0;
        for (const float x : bucket)
            if (std::isfinite(x)) most = std::max(most, std::abs(x));
        this->change(link.rank(), bucket, [most](float x, float draw) {
            return draw * most < std::abs(x) ? std::copysign(most, x) : 0;
        });
        return this->inner_.all_reduce(link, bucket);
    }
};

/// Seeded bugs: what unbiased rounding gives is changed by change(bucket, ranks), on all ranks.
template <Reducer R, auto change>
struct ChangedRounding : StochasticRounding<R, false> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const ReduceReport report = StochasticRounding<R, false>::all_reduce(link, bucket);
        change(bucket, link.ranks());
        return report;
    }
};
template <std::size_t from>
inline constexpr auto zero_behind = [](const Bucket& bucket, int) {
    for (std::size_t i = from; i < bucket.size(); ++i) bucket[i] = 0;
};
/// 3 % less: of 64 elements together, no single one shows it.
template <std::size_t from>
inline constexpr auto shrink_behind = [](const Bucket& bucket, int) {
    for (std::size_t i = from; i < bucket.size(); ++i) bucket[i] *= 0.97f;
};
inline constexpr auto halve_the_sum = [](const Bucket& bucket, int ranks) {
    for (float& x : bucket) x *= static_cast<float>(ranks) / 2;
};
inline constexpr auto zero_at_five_ranks = [](const Bucket& bucket, int ranks) {
    for (float& x : bucket) x = ranks == 5 ? 0 : x;
};
inline constexpr auto zero_later_buckets = [](const Bucket& bucket, int) {
    for (float& x : bucket) x = bucket.offset > 0 ? 0 : x;
};
inline constexpr auto zero_some = [](const Bucket& bucket, int) {
    for (std::size_t i = 80; i < bucket.size(); i += 17) bucket[i] = 0;
};
/// Each result goes to another parameter.
inline constexpr auto swap_neighbours = [](const Bucket& bucket, int) {
    for (std::size_t i = 64; i + 1 < bucket.size(); i += 3) std::swap(bucket[i], bucket[i + 1]);
};

}  // namespace gx::testing
