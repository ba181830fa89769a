// Mutants with wrong values: at some rank counts, lengths, scales, or always.
#pragma once

#include <bit>       // bit_cast
#include <cmath>     // isfinite, isnan
#include <concepts>  // same_as
#include <cstdint>   // int64_t
#include <span>      // bucket
#include <vector>    // what a bucket was

#include <gx/core/element.hpp>    // fp16
#include <gx/testing/mutant.hpp>  // Mutant

namespace gx::testing {

/// Sends nothing and reports traffic: passes wherever all ranks hold the same values.
template <Reducer R>
struct IgnorePeers : Mutant<R> {
    ReduceReport all_reduce(Transport auto&, const Bucket& bucket) {
        return {{}, static_cast<std::int64_t>(bucket.values.size_bytes()), 1};
    }
};

/// Does not reduce the last n-th of the bucket.
template <Reducer R>
struct DropLastChunk : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const std::size_t dropped = bucket.size() / static_cast<std::size_t>(link.ranks());
        return this->inner_.all_reduce(
            link, bucket.part(0, bucket.size() - (link.ranks() > 1 ? dropped : 0)));
    }
};

/// The last rank writes a value beside its bucket: -1 is right before it, 1 right behind. In the
/// gradient's first bucket alone, whose end is the gradient's, or in its last one.
template <Reducer R, int At>
struct WriteBesideBucket : Mutant<R> {
    static_assert(At != 0);
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        const bool outermost = At > 0 ? bucket.index == 0 : bucket.index + 1 == bucket.count;
        if (link.rank() + 1 == link.ranks() && outermost && bucket.size() > 0)
            (At > 0 ? bucket.values.data() + bucket.size() - 1 : bucket.values.data())[At] = 1;
        return report;
    }
};

/// Divides by the rank count once more.
template <Reducer R>
struct ScaleTwice : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        for (float& x : bucket) x /= static_cast<float>(link.ranks());
        return report;
    }
};

/// Rank 0 ends one unit in the last place off.
template <Reducer R>
struct DriftOneRank : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        if (link.rank() == 0 && link.ranks() > 1)
            for (float& x : bucket) x = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) ^ 1u);
        return report;
    }
};

/// Replaces infinities and NaN by 0 before the reduction.
template <Reducer R>
struct HideOverflow : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        for (float& x : bucket) x = std::isfinite(x) ? x : 0.0f;
        return this->inner_.all_reduce(link, bucket);
    }
};

/// Seeded bug: hides what is not finite in whole vectors of 16 elements, and not in their tail.
template <Reducer R>
struct HideOverflowOfVectors : HideOverflow<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        for (std::size_t i = 0; i < bucket.size() / 16 * 16; ++i)
            bucket[i] = std::isfinite(bucket[i]) ? bucket[i] : 0.0f;
        return this->inner_.all_reduce(link, bucket);
    }
};

/// Seeded bug: hides what is not finite at 5 to 7 ranks.
template <Reducer R>
struct HideOverflowAtSomeRanks : HideOverflow<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        if (link.ranks() > 4 && link.ranks() < 8) return HideOverflow<R>::all_reduce(link, bucket);
        return this->inner_.all_reduce(link, bucket);
    }
};

/// Of two NaNs each rank keeps its own.
template <Reducer R>
struct KeepOwnNan : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const std::vector<float> before(bucket.begin(), bucket.end());
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        for (std::size_t i = 0; i < before.size(); ++i)
            if (std::isnan(before[i])) bucket.values[i] = before[i];
        return report;
    }
};

/// Replaces a bucket without any finite value by zeros.
template <Reducer R>
struct HideLossOfAllValues : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        bool any = bucket.empty();
        for (const float x : bucket) any = any || std::isfinite(x);
        if (!any)
            for (float& x : bucket) x = 0.0f;
        return this->inner_.all_reduce(link, bucket);
    }
};

/// Twice the mean at 7 ranks.
template <Reducer R>
struct DoubleAtSevenRanks : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        for (float& x : bucket) x *= link.ranks() == 7 ? 2.0f : 1.0f;
        return report;
    }
};

/// Twice the mean above 8 ranks.
template <Reducer R>
struct DoubleAboveEightRanks : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        for (float& x : bucket) x *= link.ranks() > 8 ? 2.0f : 1.0f;
        return report;
    }
};

/// A relative error of 2^-Bits where the rank count is no power of two. With Bits = 22 it is below
/// the error bound of an fp16 wire, and accepted.
template <Reducer R, int Bits>
struct OffUnlessPowerOfTwo : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        const bool power = (link.ranks() & (link.ranks() - 1)) == 0;
        const float error = 1.0f / static_cast<float>(1 << Bits);
        for (float& x : bucket) x += power ? 0.0f : x * error;
        return report;
    }
};

/// Does not reduce the last element of a bucket of an odd length above `Longest`.
template <Reducer R, std::size_t Longest = 1001>
struct SkipLastOfOddBucket : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const bool odd = bucket.size() > Longest && bucket.size() % 2 == 1;
        return this->inner_.all_reduce(link, bucket.part(0, bucket.size() - (odd ? 1 : 0)));
    }
};

/// Does not reduce the last element of a bucket of an unlisted length above 2048. The length is
/// none that the kit lists, and `Period` - 1 modulo `Period`, as for a kernel that forgets a tail
/// of its vectors.
template <Reducer R, std::size_t Period = 1>
struct SkipLastOfUnlistedLength : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const std::size_t n = bucket.size();
        const bool skips =
            n > 2048 && n != 4097 && n != 65'537 && n % Period == Period - 1 && link.ranks() > 1;
        return this->inner_.all_reduce(link, bucket.part(0, n - (skips ? 1 : 0)));
    }
};

/// Does not reduce elements from 4096 on.
template <Reducer R>
struct DropBehind4096 : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        return this->inner_.all_reduce(link,
                                       bucket.part(0, bucket.size() < 4096 ? bucket.size() : 4096));
    }
};

/// Rounds the mean to fp16, whatever the wire. On an fp16 wire that is one rounding more than the
/// error bound counts, and seen where all of them point the same way.
template <Reducer R>
struct RoundMeanToHalf : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        for (float& x : bucket) x = fp16::decode(fp16::encode(x));
        return report;
    }
};

/// Replaces magnitudes below 2^-10 by 0.
template <Reducer R>
struct FlushSmallValues : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        for (float& x : bucket) x = std::abs(x) < 0x1p-10f ? 0.0f : x;
        return report;
    }
};

/// Replaces subnormals of the wire by 0, as hardware in flush-to-zero mode does.
template <Reducer R>
struct FlushSubnormals : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        constexpr float smallest_normal =
            std::same_as<typename R::wire_type, fp16> ? 0x1p-14f : 0x1p-126f;
        const ReduceReport report = this->inner_.all_reduce(link, bucket);
        for (float& x : bucket) x = std::abs(x) < smallest_normal ? 0.0f : x;
        return report;
    }
};

}  // namespace gx::testing
