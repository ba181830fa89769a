// Mutants: reducers that are wrong in one way each; a suite that accepts one proves nothing.
#pragma once

#include <array>    // history
#include <bit>      // bit_cast
#include <cmath>    // isfinite
#include <cstdint>  // int64_t
#include <span>     // bucket
#include <vector>   // history

#include <gx/reducer/concept.hpp>  // Reducer

namespace gx::testing {

/// What mutants share: everything is R's own.
template <Reducer R>
class Mutant {
public:
    using wire_type = typename R::wire_type;
    static constexpr int channels = R::channels;
    static constexpr int staleness = R::staleness;
    static constexpr bool asynchronous = R::asynchronous;
    void reserve(Placement placement, std::int64_t elements) {
        inner_.reserve(placement, elements);
    }
    std::span<float> state() { return inner_.state(); }

protected:
    R inner_;
};

/// Talks to nobody, and says it did: passes wherever all ranks hold the same.
template <Reducer R>
struct IgnorePeers : Mutant<R> {
    ReduceReport all_reduce(Transport auto&, std::span<float> bucket) {
        return {{}, static_cast<std::int64_t>(bucket.size_bytes()), 1};
    }
};

/// Leaves the last n-th of the bucket as it was.
template <Reducer R>
struct DropLastChunk : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, std::span<float> bucket) {
        const std::size_t dropped = bucket.size() / static_cast<std::size_t>(link.ranks());
        return this->inner_.all_reduce(
            link, bucket.first(bucket.size() - (link.ranks() > 1 ? dropped : 0)));
    }
};

/// Divides by the rank count once more.
template <Reducer R>
struct ScaleTwice : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, std::span<float> bucket) {
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        for (float& x : bucket) x /= static_cast<float>(link.ranks());
        return report;
    }
};

/// Gives back the mean of two calls before, where there is one of that length.
template <Reducer R>
struct StaleByTwo : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, std::span<float> bucket) {
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

/// Adds a little of the last reduction to the next.
template <Reducer R>
struct KeepResidue : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, std::span<float> bucket) {
        if (!bucket.empty()) bucket[0] += residue_;
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        if (!bucket.empty()) residue_ = bucket[0] * 0x1p-9f;
        return report;
    }

private:
    float residue_ = 0;
};

/// Rank 0 ends one unit in the last place off.
template <Reducer R>
struct DriftOneRank : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, std::span<float> bucket) {
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        if (link.rank() == 0 && link.ranks() > 1)
            for (float& x : bucket) x = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) ^ 1u);
        return report;
    }
};

/// Turns what is not finite into 0 before anybody can see it.
template <Reducer R>
struct HideOverflow : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, std::span<float> bucket) {
        for (float& x : bucket) x = std::isfinite(x) ? x : 0.0f;
        return this->inner_.all_reduce(link, bucket);
    }
};

/// Says a reduction is complete when it is not.
template <Reducer R>
struct ClaimComplete : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, std::span<float> bucket) {
        ReduceReport report = this->inner_.all_reduce(link, bucket);
        report.delivery = {};
        return report;
    }
};

/// A decision that skips one rank's overflow: it looks at its own gradient before the reduction.
struct DecideByOwnGradient {
    bool operator()(int, std::span<const float> own, std::span<const float>) const {
        bool finite = true;
        for (const float x : own) finite = finite && std::isfinite(x);
        return !finite;
    }
};

/// A decision that one rank, `blind_rank`, never takes.
struct SkipOneRanksOverflow {
    int blind_rank = 1;
    bool operator()(int rank, std::span<const float>, std::span<const float> reduced) const {
        bool finite = true;
        for (const float x : reduced) finite = finite && std::isfinite(x);
        return !finite && rank != blind_rank;
    }
};

}  // namespace gx::testing
