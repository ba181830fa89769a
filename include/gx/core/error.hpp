// Error: trouble outside the program, told as one sentence that says what to do.
#pragma once

#include <stdexcept>  // runtime_error
#include <string>     // the sentence

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
        cancelled   ///< another rank failed first, and the world is stopping
    };
    Outcome outcome = Outcome::complete;
    int peer = -1;  ///< the rank that was waited for, or -1

    [[nodiscard]] constexpr bool complete() const { return outcome == Outcome::complete; }
};

}  // namespace gx
