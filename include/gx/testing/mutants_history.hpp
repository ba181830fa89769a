// Mutants with wrong memory: of earlier reductions, beside state(), or none where it is needed.
#pragma once

#include <algorithm>  // all_of, any_of, copy
#include <array>      // history
#include <bit>        // bit_cast
#include <cmath>      // isfinite, isnan
#include <cstdint>    // counts
#include <span>       // bucket
#include <utility>    // move
#include <vector>     // history

#include <gx/testing/mutant.hpp>  // Mutant

namespace gx::testing {

/// Writes to the first value of the gradient before, which is no longer its own.
template <Reducer R>
struct WriteToGradientBefore : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        if (!before_.empty()) before_[0] = 7.5f;
        before_ = bucket.values;
        return this->inner_.all_reduce(link, bucket);
    }
    std::span<float> before_{};
};

/// Returns the mean of two calls before, if that had the same length.
template <Reducer R>
struct StaleByTwo : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        auto& kept = history_[calls_++ % 2];
        std::vector<float> now(bucket.begin(), bucket.end());
        if (kept.size() == now.size()) std::copy(kept.begin(), kept.end(), bucket.begin());
        kept = std::move(now);
        return report;
    }

private:
    std::array<std::vector<float>, 2> history_;
    std::size_t calls_ = 0;
};

/// Returns the last mean of an earlier gradient in place of one that is incomplete, and calls it
/// complete.
template <Reducer R>
struct StaleOnLoss : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        ReduceReport report = this->inner_.all_reduce(link, bucket);
        if (report.complete()) {
            kept_.assign(bucket.begin(), bucket.end());
            gradient_ = bucket.gradient;
        } else if (gradient_ < bucket.gradient && kept_.size() == bucket.size()) {
            std::copy(kept_.begin(), kept_.end(), bucket.begin());
            report.delivery = {};
        }
        return report;
    }

private:
    std::vector<float> kept_;
    std::uint64_t gradient_ = 0;
};

/// Adds a little of the last reduction to the next.
template <Reducer R>
struct KeepResidue : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        if (!bucket.empty()) bucket[0] += residue_;
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        if (!bucket.empty()) residue_ = bucket[0] * 0x1p-9f;
        return report;
    }

private:
    float residue_ = 0;
};

/// Seeded bug: the last value is that of the reduction before, if it was one value longer.
template <Reducer R>
struct KeepLastOfOneLonger : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        if (!bucket.empty() && before_.size() == bucket.size() + 1)
            bucket[bucket.size() - 1] = before_[bucket.size() - 1];
        before_.assign(bucket.begin(), bucket.end());
        return report;
    }

private:
    std::vector<float> before_;
};

/// Adds to the next reduction a little of the last one, which state() does not hold: that has one
/// value, and it never changes.
template <Reducer R>
struct HideState : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        if (!bucket.empty()) bucket[0] += residue_;
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        if (!bucket.empty()) residue_ = bucket[0] * 0x1p-9f;
        return report;
    }
    StateList state() { return {{.name = "shown", .values = shown_}}; }

private:
    std::array<float, 1> shown_{1.0f};
    float residue_ = 0;
};

/// One unit in the last place off from call `Calls` on.
template <Reducer R, std::uint64_t Calls = 400>
struct DriftAfterCalls : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        if (calls_++ >= Calls)
            for (float& x : bucket) x = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) ^ 1u);
        return report;
    }

private:
    std::uint64_t calls_ = 0;
};

/// Settles skipped steps as if they were applied.
template <Reducer R>
struct KeepTraceOfSkippedStep : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        return this->inner_.all_reduce(link, bucket);
    }
    void settle(std::uint64_t gradient, bool) { this->inner_.settle(gradient, true); }
};

/// Seeded bug: undoes a skipped step only if its last bucket is not finite.
template <Reducer R>
struct UndoIfLastBucketOverflows : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        last_is_finite_ = std::ranges::all_of(bucket, [](float x) { return std::isfinite(x); });
        return report;
    }
    void settle(std::uint64_t gradient, bool applied) {
        this->inner_.settle(gradient, applied || last_is_finite_);
    }

private:
    bool last_is_finite_ = true;
};

/// Seeded bug: settles steps that are skipped for a NaN as if they were applied.
template <Reducer R>
struct KeepTraceOfNan : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        const bool here = std::ranges::any_of(bucket, [](float x) { return std::isnan(x); });
        nan_ = here || (bucket.index > 0 && nan_);
        return report;
    }
    void settle(std::uint64_t gradient, bool applied) {
        this->inner_.settle(gradient, applied || nan_);
    }

private:
    bool nan_ = false;
};

/// Works on the residual of the gradient's beginning, whichever bucket it is given.
template <Reducer R>
struct ForgetOffset : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, Bucket bucket) {
        bucket.offset = 0;
        return this->inner_.all_reduce(link, bucket);
    }
};

/// Declares its per-rank state as replicated.
template <Reducer R>
struct ClaimReplicatedState : Mutant<R> {
    StateList state() {
        StateList list = this->inner_.state();
        for (StateVector& v : list) v.scope = StateScope::replicated;
        return list;
    }
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        return this->inner_.all_reduce(link, bucket);
    }
};

/// A checkpoint that gives the state of rank 0 to every rank.
[[nodiscard]] inline std::vector<std::vector<float>> keep_state_of_rank_zero(
    const std::vector<std::vector<float>>& state_by_rank) {
    return std::vector<std::vector<float>>(state_by_rank.size(), state_by_rank[0]);
}

/// A checkpoint that keeps no state: every rank starts from zeros.
[[nodiscard]] inline std::vector<std::vector<float>> keep_no_state(
    const std::vector<std::vector<float>>& state_by_rank) {
    auto zeros = state_by_rank;
    for (auto& state : zeros) state.assign(state.size(), 0.0f);
    return zeros;
}

}  // namespace gx::testing
