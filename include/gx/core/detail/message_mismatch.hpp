// unequal_lengths, unequal_buckets, unequal_meeting: sentences of broken contracts of Transport.
#pragma once

#include <cstddef>  // size_t
#include <string>   // sentences

#include <gx/core/transport.hpp>  // MessageBucket

namespace gx::detail {

[[nodiscard]] inline std::string named(MessageBucket b) {
    return "bucket " + std::to_string(b.index()) + " of step " + std::to_string(b.step());
}
/// What a world says where a receive is longer or shorter than the send that it meets.
[[nodiscard]] inline std::string unequal_lengths(int from, int to, int channel, std::size_t sent,
                                                 std::size_t received, MessageBucket of) {
    return "rank " + std::to_string(from) + " sends " + std::to_string(sent) +
           " bytes where rank " + std::to_string(to) + " receives " + std::to_string(received) +
           ", on channel " + std::to_string(channel) +
           (of == MessageBucket() ? std::string() : ", in " + named(of)) +
           ": a receive and its send have equal lengths. Reduce the same buckets in the same "
           "order on every rank";
}

/// Error message of a collective mismatch: a receive in one bucket matches a send in another.
[[nodiscard]] inline std::string unequal_buckets(int from, int to, int channel, MessageBucket sent,
                                                 MessageBucket received) {
    return "rank " + std::to_string(from) + " sends " + named(sent) + " where rank " +
           std::to_string(to) + " receives " + named(received) + ", on channel " +
           std::to_string(channel) +
           ": a receive and its send are of one bucket. Reduce the same buckets in the same order "
           "on every rank";
}
/// Error message of a collective mismatch in shared memory: ranks have come with two buckets.
[[nodiscard]] inline std::string unequal_meeting(int rank, int other, int channel,
                                                 MessageBucket of_rank, MessageBucket of_other) {
    return "rank " + std::to_string(rank) + " shares memory in " + named(of_rank) + " where rank " +
           std::to_string(other) + " shares it in " + named(of_other) + ", on channel " +
           std::to_string(channel) +
           ": all ranks share the memory of one bucket. Reduce the same buckets in the same order "
           "on every rank";
}

}  // namespace gx::detail
