// Error: trouble outside the program, told as one sentence that says what to do.
#pragma once

#include <cstdint>      // int64_t
#include <stdexcept>    // runtime_error
#include <string>       // the sentence
#include <string_view>  // reasons
#include <utility>      // move

#include <gx/core/cold.hpp>  // GX_COLD

namespace gx {

/// Trouble that the program did not cause: a file, a disk, an option, a lost rank.
/// The sentence names the file, field, rank or step, what was expected, and what to do.
class Error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// What became of a message, a reduction or a step: complete, or who is missing.
/// A value, because on the step path trouble is an answer and not an exception.
struct [[nodiscard]] Delivery {
    enum class Outcome : unsigned char {
        complete,   ///< everything arrived
        timed_out,  ///< `peer` did not answer before the deadline
        cancelled,  ///< another rank failed first, and the world is stopping
        corrupted   ///< what `peer` sent is not what arrived: its checksum differs
    };
    Outcome outcome = Outcome::complete;
    int peer = -1;  ///< the rank that was waited for, or -1

    [[nodiscard]] constexpr bool complete() const { return outcome == Outcome::complete; }
};

/// "did not answer in time", for sentences that begin with the peer; empty when complete.
[[nodiscard]] constexpr std::string_view reason(Delivery d) {
    switch (d.outcome) {
        case Delivery::Outcome::complete: return "";
        case Delivery::Outcome::timed_out: return "did not answer in time";
        case Delivery::Outcome::cancelled: return "stopped first";
        case Delivery::Outcome::corrupted: return "sent what did not arrive whole";
    }
    return "";
}

/// A step that cannot be done because a rank is missing; every rank that is left throws its own.
class LostRank : public Error {
public:
    struct Where {
        int rank = -1;           ///< who tells it
        std::int64_t step = -1;
        int bucket = -1;         ///< of `buckets`; -1: not of a gradient
        int buckets = 0;
        std::string operation{};
    };

    LostRank(Where where, Delivery delivery)
        : Error(sentence(where, delivery)), where_(std::move(where)), delivery_(delivery) {}

    [[nodiscard]] int lost() const { return delivery_.peer; }
    [[nodiscard]] Delivery delivery() const { return delivery_; }
    [[nodiscard]] const Where& where() const { return where_; }

private:
    GX_COLD static std::string sentence(const Where& w, Delivery d) {
        std::string text = "rank " + std::to_string(w.rank) + ", step " + std::to_string(w.step);
        if (w.bucket >= 0)
            text += ", bucket " + std::to_string(w.bucket) + " of " + std::to_string(w.buckets);
        return text + ", operation " + w.operation + ": rank " + std::to_string(d.peer) + " " +
               std::string(reason(d)) +
               ". Look at that rank's own error, then go on from the last checkpoint.";
    }
    Where where_;
    Delivery delivery_;
};

}  // namespace gx
