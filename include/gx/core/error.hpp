// Error: failure outside the program, as one sentence with the remedy; lost ranks and devices.
#pragma once

#include <cstdint>      // int64_t
#include <stdexcept>    // runtime_error
#include <string>       // the sentence
#include <string_view>  // reasons

#include <gx/core/decl.hpp>  // GX_DECL

namespace gx {

/// Failure that the program did not cause: a file, a disk, an option, a lost rank.
/// The sentence names the file, field, rank or step, what was expected, and what to do.
class Error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Failure of one rank's device: that rank cannot go on, the others can. A device throws it; with
/// ContinueOnSurvivors its rank counts as lost, with StopOnLoss it ends the run as any error does.
class DeviceLost : public Error {
public:
    using Error::Error;
};

/// Base of exceptions that end a rank's code where nothing failed in it. One is the death of a
/// simulated rank. Worlds throw and catch them, and nothing names them.
struct EndsRank {};

/// Queued work that was to repeat that of a step before, and does not.
class NotRepeated : public Error {
public:
    using Error::Error;
};

/// Outcome of a message, a reduction or a step: complete, or the missing rank.
/// A value and not an exception, because failures are expected on the step path.
struct [[nodiscard]] Delivery {
    enum class Outcome : unsigned char {
        complete,   ///< everything arrived
        timed_out,  ///< `peer` sent nothing before the deadline, or has left without it
        lost,       ///< the process or connection of `peer` ended before its function returned
        cancelled,  ///< another rank failed first, and the world is stopping
        corrupted   ///< the checksum of a message from `peer` differs
    };
    Outcome outcome = Outcome::complete;
    int peer = -1;  ///< rank that was waited for, or -1

    [[nodiscard]] constexpr bool complete() const { return outcome == Outcome::complete; }
};

/// Returns "timed out" or the like, to follow the peer; empty when complete.
[[nodiscard]] constexpr std::string_view reason(Delivery d) {
    switch (d.outcome) {
        case Delivery::Outcome::complete: return "";
        case Delivery::Outcome::timed_out: return "timed out";
        case Delivery::Outcome::lost: return "is lost: its process, host or connection ended";
        case Delivery::Outcome::cancelled: return "stopped first";
        case Delivery::Outcome::corrupted: return "sent a message that failed its checksum";
    }
    return "";
}

/// Step that failed because a rank is missing; each remaining rank throws its own.
class LostRank : public Error {
public:
    struct Where {
        int rank = -1;           ///< that reports the loss
        std::int64_t step = -1;  ///< -1: before the first or behind the last
        int bucket = -1;         ///< of `buckets`; -1: not of a gradient
        int buckets = 0;
        std::string operation{};
    };

    /// `cause`: a more precise error text, or empty.
    LostRank(Where where, Delivery delivery, const std::string& cause = "");

    [[nodiscard]] int lost() const { return delivery_.peer; }
    [[nodiscard]] Delivery delivery() const { return delivery_; }
    [[nodiscard]] const Where& where() const { return where_; }

private:
    Where where_;
    Delivery delivery_;
};

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/core/impl/error.ipp>
#endif
