// Mutants that err under a loss scale, in later buckets, or in runs of skips.
#pragma once

#include <algorithm>  // copy, find_if
#include <cmath>      // abs, isfinite
#include <cstdint>    // uint64_t
#include <memory>     // unique_ptr
#include <mutex>      // a residual of two gradients
#include <utility>    // swap
#include <vector>     // residuals

#include <gx/reducer/concept.hpp>         // Reducer
#include <gx/testing/error_feedback.hpp>  // ErrorFeedback
#include <gx/testing/mutant.hpp>          // Mutant
#include <gx/testing/mutants_values.hpp>  // HideOverflow

namespace gx::testing {

// ---- Under a loss scale other than 1 ---------------------------------------------------------

/// Seeded bug: all ranks but rank 0 double a mean that has a loss scale.
template <Reducer R>
struct DoubleScaledOffRankZero : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        if (bucket.loss_scale != 1 && link.rank() > 0)
            for (float& x : bucket) x *= 2;
        return report;
    }
};

/// Seeded bug: drops the sign of a mean that has a loss scale.
template <Reducer R>
struct DropSignOfScaled : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        if (bucket.loss_scale != 1)
            for (float& x : bucket) x = std::abs(x);
        return report;
    }
};

/// Seeded bug: sends 0 in place of what is not finite, where there is a loss scale.
template <Reducer R>
struct HideOverflowOfScaled : HideOverflow<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        if (bucket.loss_scale != 1) return HideOverflow<R>::all_reduce(link, bucket);
        return this->inner_.all_reduce(link, bucket);
    }
};

/// Seeded bug: hides what is not finite in the first of several buckets with a loss scale.
template <Reducer R>
struct HideOverflowOfScaledFirstBucket : HideOverflow<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        if (bucket.loss_scale != 1 && bucket.index == 0 && bucket.count > 1)
            return HideOverflow<R>::all_reduce(link, bucket);
        return this->inner_.all_reduce(link, bucket);
    }
};

/// Seeded bug: hides what is not finite between the first and the last bucket with a loss scale.
template <Reducer R>
struct HideOverflowOfScaledMiddleBucket : HideOverflow<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        if (bucket.loss_scale != 1 && bucket.index > 0 && bucket.index + 1 < bucket.count)
            return HideOverflow<R>::all_reduce(link, bucket);
        return this->inner_.all_reduce(link, bucket);
    }
};

/// Seeded bug: zeroes a mean of 2 ranks that has a loss scale and goes in buckets.
template <Reducer R>
struct LoseScaledBucketsOfTwoRanks : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        if (bucket.loss_scale != 1 && bucket.count > 1 && link.ranks() == 2)
            for (float& x : bucket) x = 0;
        return report;
    }
};

/// Seeded bug: zeroes a mean of 3 ranks or more that has a loss scale and is one bucket.
template <Reducer R>
struct LoseScaledOneBucketOfThreeRanks : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        if (bucket.loss_scale != 1 && bucket.count == 1 && link.ranks() >= 3)
            for (float& x : bucket) x = 0;
        return report;
    }
};

/// Seeded bug: zeroes a mean of more than 4 ranks that has a loss scale.
template <Reducer R>
struct LoseScaledAboveFourRanks : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        if (bucket.loss_scale != 1 && link.ranks() > 4)
            for (float& x : bucket) x = 0;
        return report;
    }
};

/// Seeded bug: ignores loss scales of 1024 and above, as dynamic scaling begins with.
template <Reducer R>
struct IgnoreLargeLossScale : ErrorFeedback<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        Bucket b = bucket;
        if (b.loss_scale >= 1024) b.loss_scale = 1;
        return ErrorFeedback<R>::all_reduce(link, b);
    }
};

/// Seeded bug: ignores the loss scale of a gradient that is one bucket.
template <Reducer R>
struct IgnoreLossScaleOfOneBucket : ErrorFeedback<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        Bucket b = bucket;
        if (b.count == 1) b.loss_scale = 1;
        return ErrorFeedback<R>::all_reduce(link, b);
    }
};

/// Seeded bug: ignores the loss scale in all buckets but the first.
template <Reducer R>
struct IgnoreLossScaleOfLaterBuckets : ErrorFeedback<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        Bucket b = bucket;
        if (b.index > 0) b.loss_scale = 1;
        return ErrorFeedback<R>::all_reduce(link, b);
    }
};

/// Seeded bug: keeps the residual times the present loss scale, which it remembers beside state().
template <Reducer R>
struct KeepScaledState : ErrorFeedback<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        if (bucket.index == 0 && bucket.loss_scale != scale_) {
            for (const StateVector& v : this->state())
                for (float& x : v.values) x *= bucket.loss_scale / scale_;
            scale_ = bucket.loss_scale;
        }
        Bucket b = bucket;
        b.loss_scale = 1;
        return ErrorFeedback<R>::all_reduce(link, b);
    }

private:
    float scale_ = 1;
};

/// Seeded bug: a skipped step leaves its residual, where it had a loss scale.
template <Reducer R>
struct KeepTraceOfScaledSkip : ErrorFeedback<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        scaled_ = bucket.loss_scale != 1;
        return ErrorFeedback<R>::all_reduce(link, bucket);
    }
    void settle(std::uint64_t gradient, bool applied) {
        ErrorFeedback<R>::settle(gradient, applied || scaled_);
    }

private:
    bool scaled_ = false;
};

// ---- In buckets behind the first ---------------------------------------------------------------

/// Seeded bug: doubles the mean at 3 ranks in all buckets but the first.
template <Reducer R>
struct DoubleLaterBuckets : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        if (bucket.index > 0 && link.ranks() == 3)
            for (float& x : bucket) x *= 2;
        return report;
    }
};

/// Seeded bug: ranks differ in all buckets but the first.
template <Reducer R>
struct DriftLaterBuckets : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        if (bucket.index > 0 && link.rank() > 0)
            for (float& x : bucket) x += 1;
        return report;
    }
};

/// Seeded bug: sends 0 in place of what is not finite, in all buckets but the first.
template <Reducer R>
struct HideOverflowOfLaterBuckets : HideOverflow<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        if (bucket.index > 0) return HideOverflow<R>::all_reduce(link, bucket);
        return this->inner_.all_reduce(link, bucket);
    }
};

/// Seeded bug: what is not finite moves to the next element, in all buckets but the first.
template <Reducer R>
struct MoveOverflowOfLaterBuckets : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        if (bucket.index == 0) return report;
        const auto at = std::ranges::find_if(bucket, [](float x) { return !std::isfinite(x); });
        if (at != bucket.end()) std::swap(*at, at + 1 == bucket.end() ? *bucket.begin() : at[1]);
        return report;
    }
};

/// Seeded bug: reports success whatever happens, in all buckets but the first.
template <Reducer R>
struct ClaimCompleteLaterBuckets : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        ReduceReport report = this->inner_.all_reduce(link, bucket);
        if (bucket.index > 0) report.delivery = {};
        return report;
    }
};

/// Seeded bug: reports success whatever happens, in all buckets but the first two.
template <Reducer R>
struct ClaimCompleteThirdBucket : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        ReduceReport report = this->inner_.all_reduce(link, bucket);
        if (bucket.index > 1) report.delivery = {};
        return report;
    }
};

// ---- In a run of skipped steps -----------------------------------------------------------------

/// Seeded bug: undoes the last bucket alone of a step that is skipped.
template <Reducer R>
struct UndoLastBucketOnly : ErrorFeedback<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        offset_ = static_cast<std::size_t>(bucket.offset);
        size_ = bucket.size();
        return ErrorFeedback<R>::all_reduce(link, bucket);
    }
    void settle(std::uint64_t gradient, bool applied) {
        const auto part = [&] { return this->residual_.state()[0].values.subspan(offset_, size_); };
        const auto before = part();
        const std::vector<float> kept(before.begin(), before.end());
        ErrorFeedback<R>::settle(gradient, true);
        if (!applied) std::ranges::copy(kept, part().begin());
    }

private:
    std::size_t offset_ = 0, size_ = 0;
};

/// Seeded bug: the second of two skipped steps in a row leaves its residual.
template <Reducer R>
struct KeepTraceOfSecondSkip : ErrorFeedback<R> {
    void settle(std::uint64_t gradient, bool applied) {
        skips_ = applied ? 0 : skips_ + 1;
        ErrorFeedback<R>::settle(gradient, applied || skips_ == 2);
    }

private:
    int skips_ = 0;
};

/// Seeded bug: ranks differ from the first skipped step on.
template <Reducer R>
struct DriftAfterSkip : ErrorFeedback<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const ReduceReport report = ErrorFeedback<R>::all_reduce(link, bucket);
        if (skipped_ && link.rank() > 0)
            for (float& x : bucket) x += 1;
        return report;
    }
    void settle(std::uint64_t gradient, bool applied) {
        skipped_ = skipped_ || !applied;
        ErrorFeedback<R>::settle(gradient, applied);
    }

private:
    bool skipped_ = false;
};

/// Seeded bug: one residual for two gradients in flight. A lock keeps one from being settled while
/// the other is cut: only the sums are to be wrong.
template <Reducer R>
struct OneResidualInFlight : ErrorFeedback<R> {
    void reserve(const ReducePlan& plan) {
        ReducePlan one = plan;
        one.in_flight = 1;
        ErrorFeedback<R>::reserve(one);
    }
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        {
            const std::lock_guard lock(*mutex_);
            this->cut(bucket);
        }
        return this->inner_.all_reduce(link, bucket);
    }
    void settle(std::uint64_t gradient, bool applied) {
        const std::lock_guard lock(*mutex_);
        ErrorFeedback<R>::settle(gradient, applied);
    }

private:
    std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
};

}  // namespace gx::testing
