// The sentence of a lost rank.
#pragma once

#include <string>   // the sentence
#include <utility>  // move

#include <gx/core/cold.hpp>   // GX_COLD
#include <gx/core/error.hpp>  // LostRank

namespace gx {

namespace detail::error {

GX_COLD GX_DECL std::string sentence(const LostRank::Where& w, Delivery d) {
    std::string text = "rank " + std::to_string(w.rank);
    if (w.step >= 0) text += ", step " + std::to_string(w.step);
    if (w.bucket >= 0)
        text += ", bucket " + std::to_string(w.bucket) + " of " + std::to_string(w.buckets);
    return text + ", operation " + w.operation + ": " +
           (d.peer < 0 ? std::string("a rank") : "rank " + std::to_string(d.peer)) + " " +
           std::string(reason(d)) + ". Look at that rank's own error" +
           (d.outcome == Delivery::Outcome::timed_out ? ", or, if it has none, at the deadline"
            : d.outcome == Delivery::Outcome::lost    ? ", or, if it was killed, at its host's log"
                                                      : "") +
           ", then go on from the last checkpoint.";
}

}  // namespace detail::error

GX_DECL LostRank::LostRank(Where where, Delivery delivery, const std::string& cause)
    : Error(detail::error::sentence(where, delivery) + (cause.empty() ? "" : " Its cause: ") +
            cause),
      where_(std::move(where)),
      delivery_(delivery) {}

}  // namespace gx
