// BucketTags: what an MPI tag tells of a message's bucket.
#pragma once

#include <cstdint>   // uint64_t
#include <optional>  // a bucket that a tag tells

#include <gx/core/stream.hpp>     // Operation
#include <gx/core/transport.hpp>  // MessageBucket

namespace gx::mpi {

/// Buckets as tags from 0 to `tag_max`, MPI_TAG_UB: 0 for none, else step and index, each modulo
/// what fits. At the least that MPI allows, 32,767, that are 255 steps of 128 buckets; at 2^31 - 1
/// 2,097,151 of 1,024.
///
/// Errors: none; buckets whose steps and indices differ by multiples of these have one tag.
class BucketTags {
public:
    constexpr explicit BucketTags(int tag_max)
        : indices_(tag_max < (1 << 20) ? 128 : 1024),
          steps_(static_cast<std::uint64_t>(tag_max) / indices_) {}

    [[nodiscard]] constexpr int tag_of(MessageBucket bucket) const {
        if (!bucket.known()) return 0;
        return static_cast<int>(1 + bucket.step() % steps_ * indices_ + bucket.index() % indices_);
    }
    /// What a message of `tag` is of, where it meets a receive in `bucket` and both know theirs:
    /// nothing where that may be `bucket`, else a bucket of that tag, the nearest step and index.
    [[nodiscard]] constexpr std::optional<MessageBucket> other_than(MessageBucket bucket,
                                                                    int tag) const {
        if (!bucket.known() || tag <= 0 || tag == tag_of(bucket)) return std::nullopt;
        const auto told = static_cast<std::uint64_t>(tag - 1);
        const std::uint64_t step = bucket.step();
        const std::uint64_t index = nearest_index(bucket.index(), told % indices_);
        const std::uint64_t ahead = (told / indices_ + steps_ - step % steps_) % steps_;
        const std::uint64_t behind = steps_ - ahead;
        const bool is_ahead = ahead <= behind || behind > step;
        return MessageBucket(
            Operation{"", static_cast<std::int64_t>(is_ahead ? step + ahead : step - behind),
                      static_cast<int>(index)});
    }

private:
    /// The nearest to `index` of those that are congruent to `told` modulo indices_.
    [[nodiscard]] constexpr std::uint64_t nearest_index(std::uint64_t index,
                                                        std::uint64_t told) const {
        const std::uint64_t ahead = (told + indices_ - index % indices_) % indices_;
        const std::uint64_t behind = indices_ - ahead;
        return ahead <= behind || behind > index ? index + ahead : index - behind;
    }

    std::uint64_t indices_, steps_;
};

}  // namespace gx::mpi
