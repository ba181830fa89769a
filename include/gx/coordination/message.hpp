// Messages of the coordination channel: kinds, bytes, and a reader of a byte stream.
#pragma once

#include <chrono>       // how long a wait has lasted
#include <cstddef>      // byte
#include <cstdint>      // the numbers of the format
#include <optional>     // a whole message, if there is one
#include <span>         // bytes
#include <string>       // names, sentences
#include <string_view>  // sentences
#include <variant>      // a message is one of its kinds
#include <vector>       // the bytes, the members

#include <gx/core/decl.hpp>        // GX_DECL
#include <gx/core/error.hpp>       // Delivery
#include <gx/core/stream.hpp>      // Operation
#include <gx/core/world_info.hpp>  // RunTerms

namespace gx::coordination {

using Duration = std::chrono::nanoseconds;

/// `a + b`, or max() beyond it.
[[nodiscard]] constexpr Duration saturating_sum(Duration a, Duration b) {
    return b > Duration::max() - a ? Duration::max() : a + b;
}

// A message is a header of 12 bytes and a body. Integers are little-endian, strings are a u32 of
// their length in bytes and these bytes, lists are a u32 of their length and their elements, and an
// operation is its name, i64 step, i64 bucket (-1: none).
//
//     bytes  0-3   "gxco"
//            4-5   u16 version of the format
//            6-7   u16 kind
//            8-11  u32 bytes of the body, at most body_bytes_max
//
//     kind          from    body
//      1 Hello      member  str run_id, i32 rank, i32 ranks, i32 local_rank, u64 process, str host
//      2 Welcome    root    list of members by rank: str host, u64 process, i32 local_rank
//      3 Refused    root    str text
//      4 RunTerms   member  str composition, u64 seed, str options, i32 ranks, str source
//      5 Agreed     root    -
//      6 Alive      both    operation
//      7 Failed     member  i32 exit_status, operation, str text
//      8 Blamed     member  i32 peer, operation, i64 nanoseconds of the wait
//      9 Cause      root    u8 reason, i32 rank, i32 observer, i32 exit_status, operation, str text
//     10 Leaving    member  -
//     11 Left       root    i32 rank
//     12 Ended      root    i32 exit_status
//     13 Note       both    i32 rank, list of u8 bytes
//     14 Staying    member  i64 number
//     15 Regrouped  root    i64 number, list of i32 members
//     16 Waiting    both    list of waits: i64 nanoseconds, list of i32 peers; operation; i64
//                           nanoseconds of a standstill, i64 nanoseconds since its end
//
// A list of waits has at most waits_max elements; each has at least one peer. No time is negative.
//
// The header and Refused stay as they are in all versions, so that a member of another version can
// read why it was refused.

inline constexpr std::uint16_t protocol_version = 7;
inline constexpr std::size_t header_bytes = 12;
inline constexpr std::size_t body_bytes_max = std::size_t{1} << 20;
/// What is read from a connection before it has said which rank it is.
inline constexpr std::size_t hello_bytes_max = 4096;
inline constexpr std::size_t run_id_bytes_max = 1024;
inline constexpr std::size_t text_bytes_max = 64 * 1024;      ///< longer sentences are cut
inline constexpr std::size_t options_bytes_max = 512 * 1024;  ///< of RunTerms; see Member::compare
inline constexpr std::size_t waits_max = 64;                  ///< of Waiting
inline constexpr std::size_t note_bytes_max = body_bytes_max - 8;

/// First message of a member.
struct Hello {
    std::string run_id{};  ///< shared secret of the run: without it a connection is refused
    int rank = -1;
    int ranks = 0;        ///< of the world, as this member was started
    int local_rank = -1;  ///< among the ranks of its host, as its launcher numbered it; -1: unknown
    std::uint64_t process = 0;
    std::string host{};
    bool operator==(const Hello&) const = default;
};
/// One rank's process.
struct MemberInfo {
    std::string host{};
    std::uint64_t process = 0;
    int local_rank = -1;  ///< as in Hello
    bool operator==(const MemberInfo&) const = default;
};
/// All ranks have come.
struct Welcome {
    std::vector<MemberInfo> members{};  ///< by rank
    bool operator==(const Welcome&) const = default;
};
/// The connection is no member of this run, and the run goes on without it.
struct Refused {
    std::string text{};
    bool operator==(const Refused&) const = default;
};
using gx::RunTerms;
/// All ranks have sent the terms of rank 0.
struct Agreed {
    bool operator==(const Agreed&) const = default;
};
/// The sender runs, and does this.
struct Alive {
    Operation operation{};
    bool operator==(const Alive&) const = default;
};
/// The sender's function throws; a second one, with a text, may follow one without.
struct Failed {
    int exit_status = 1;
    Operation operation{};
    std::string text{};  ///< empty: not known yet
    bool operator==(const Failed&) const = default;
};
/// In place of the rank that is waited for: a collective of a library waits for any of them.
inline constexpr int any_rank = -2;
/// A wait of the sender for `peer`, or any_rank, has met its deadline.
struct Blamed {
    int peer = -1;
    Operation operation{};
    Duration lasted{};  ///< the wait, until now; 0: unknown
    bool operator==(const Blamed&) const = default;
};

/// Why a run stops early.
enum class Reason : unsigned char {
    none,
    error,     ///< the function of `rank` threw
    lost,      ///< the connection of `rank` ended before its function had returned
    silent,    ///< nothing was heard of `rank` for too long
    late,      ///< a wait of `observer` for `rank` met its deadline
    mismatch,  ///< `rank` is of another run than rank 0
    absent     ///< `rank` did not come to the rendezvous
};
/// Exit status of a rank whose device is lost: a DeviceLost, after which the others may go on.
inline constexpr int device_lost = 3;
/// First reason to stop a run; equal on all its ranks.
struct Cause {
    Reason reason = Reason::none;
    int rank = -1;      ///< that failed
    int observer = -1;  ///< that detected it; equal to `rank` if that rank reported it itself
    int exit_status = 0;
    Operation operation{};  ///< of the observer
    std::string text{};     ///< a sentence
    bool operator==(const Cause&) const = default;

    [[nodiscard]] bool stopped() const { return reason != Reason::none; }
    /// Whether `rank` or its device is lost, so that the others may go on without it.
    [[nodiscard]] bool is_loss() const {
        if (reason == Reason::error) return exit_status == device_lost;
        return stopped() && reason != Reason::mismatch;
    }
    /// Outcome of a wait for a message of `rank`.
    [[nodiscard]] Delivery::Outcome outcome() const {
        if (reason == Reason::lost) return Delivery::Outcome::lost;
        const bool threw = reason == Reason::error || reason == Reason::mismatch;
        return threw ? Delivery::Outcome::cancelled : Delivery::Outcome::timed_out;
    }
};
/// The sender's function has returned.
struct Leaving {
    bool operator==(const Leaving&) const = default;
};
/// The function of `rank` has returned.
struct Left {
    int rank = -1;
    bool operator==(const Left&) const = default;
};
/// All functions have returned: processes may end.
struct Ended {
    int exit_status = 0;  ///< for every process; 0: without an error
    bool operator==(const Ended&) const = default;
};

/// Bytes of the world that is built on the channel, from `rank` to all others; the root passes them
/// on. At most note_bytes_max.
struct Note {
    int rank = -1;
    std::vector<std::byte> bytes{};
    bool operator==(const Note&) const = default;
};

/// The run of the sender has ended by a loss, and the sender can go on in another one.
struct Staying {
    std::int64_t number = 0;  ///< that all are to have, where the sender is the root
    bool operator==(const Staying&) const = default;
};
/// Who goes on in another run, over the same connections: what follows is of that run.
struct Regrouped {
    std::int64_t number = 0;  ///< of the root
    std::vector<int>
        members{};  ///< by their ranks until now: rank r was rank members[r]; ascending
    bool operator==(const Regrouped&) const = default;
};

/// One wait of a rank: one of its threads needs a message of these peers, or of one of them.
struct Wait {
    std::vector<int> peers{};  ///< at least one; any_rank among them
    Duration lasted{};         ///< until the rank was asked
    bool operator==(const Wait&) const = default;
};
/// A time for which a process was suspended, as by SIGSTOP or in a frozen container.
struct Standstill {
    Duration lasted{};  ///< 0: it never stood still
    Duration ago{};     ///< its end
    bool operator==(const Standstill&) const = default;
};
/// What the sender waits for; from the root the question, whose members are not read.
struct Waiting {
    std::vector<Wait> waits{};  ///< at most waits_max, the oldest; none: it waits for no rank
    Operation operation{};
    Standstill standstill{};  ///< the last one
    bool operator==(const Waiting&) const = default;
};

using Message = std::variant<Hello, Welcome, Refused, RunTerms, Agreed, Alive, Failed, Blamed,
                             Cause, Leaving, Left, Ended, Note, Staying, Regrouped, Waiting>;

/// The bytes of a message. Errors: a body beyond the limit breaks the contract; texts are cut.
[[nodiscard]] GX_DECL std::vector<std::byte> encode(const Message& message);

/// Makes control characters, other than line ends and tabs, '?': as all texts are read.
GX_DECL void replace_control_characters(std::string& text);

/// "step 7, bucket 3, operation all-reduce", or that none was reported.
[[nodiscard]] GX_DECL std::string describe(const Operation& operation);

/// "3.5 s", of a second and more to two places.
[[nodiscard]] GX_DECL std::string in_seconds(Duration d);

/// Reads messages from the bytes of a connection, in pieces of any size.
/// Errors: next() returns nothing for ever once the bytes are no message; `problem` is then the
///         sentence. Bytes of strangers are safe: lengths are checked before memory is taken.
/// Cost:   control characters in texts, other than line ends, become '?'.
class MessageReader {
public:
    /// `limit`: of a body.
    explicit MessageReader(std::size_t limit = body_bytes_max) : limit_(limit) {}

    void limit(std::size_t bytes) { limit_ = bytes; }
    void feed(std::span<const std::byte> bytes);
    [[nodiscard]] std::optional<Message> next();
    [[nodiscard]] const std::string& problem() const { return problem_; }
    /// Whether bytes of a message that is not whole have come.
    [[nodiscard]] bool inside_message() const { return at_ < bytes_.size(); }

private:
    std::optional<Message> fail(std::string sentence);

    std::size_t limit_;
    std::vector<std::byte> bytes_{};
    std::size_t at_ = 0;  ///< bytes before it are read
    std::string problem_{};
};

}  // namespace gx::coordination

#if defined(GX_HEADER_ONLY)
#include <gx/coordination/impl/message.ipp>
#endif
