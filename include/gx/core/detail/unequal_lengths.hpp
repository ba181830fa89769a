// unequal_lengths: the sentence of a broken contract of Transport.
#pragma once

#include <cstddef>  // size_t
#include <string>   // the sentence

namespace gx::detail {

/// What a world says where a receive is longer or shorter than the send that it meets.
[[nodiscard]] inline std::string unequal_lengths(int from, int to, int channel, std::size_t sent,
                                                 std::size_t received) {
    return "rank " + std::to_string(from) + " sends " + std::to_string(sent) +
           " bytes where rank " + std::to_string(to) + " receives " + std::to_string(received) +
           ", on channel " + std::to_string(channel) +
           ": a receive and its send have equal lengths. Reduce the same buckets in the same "
           "order on every rank";
}

}  // namespace gx::detail
