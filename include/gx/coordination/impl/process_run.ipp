// The first error of a run: kept, sent to the other ranks, and thrown.
#pragma once

#include <unistd.h>  // write, _exit

#include <string>  // a line

#include <gx/coordination/process_run.hpp>   // the declarations
#include <gx/core/detail/rethrow_named.hpp>  // name_of_exception
#include <gx/core/error.hpp>                 // Error, LostRank, DeviceLost

namespace gx::coordination {

GX_DECL bool is_device_lost(const std::exception_ptr& error) {
    try {
        if (error) std::rethrow_exception(error);
    } catch (const DeviceLost&) {
        return true;
    } catch (...) {
    }
    return false;
}

GX_DECL std::string sentence_of(const std::exception_ptr& error) {
    try {
        std::rethrow_exception(error);
    } catch (const std::exception& e) {
        return e.what();
    } catch (...) {
        return gx::detail::name_of_exception();
    }
}

GX_DECL void ProcessRun::fail() {
    const std::lock_guard lock(mutex);
    if (first_error) return;
    first_error = std::current_exception();
    session.fail(sentence_of(first_error), is_device_lost(first_error) ? device_lost : 1);
}

GX_DECL void ProcessRun::end_if_forked() {
    if (!session.is_forked()) return;
    const std::string line =
        "gx: a child by fork() of rank " + std::to_string(session.rank()) + " ends: " +
        (first_error ? sentence_of(first_error) : "it has returned from the rank's function") +
        ". A child of a rank ends by _exit() or exec\n";
    [[maybe_unused]] const auto n = ::write(STDERR_FILENO, line.data(), line.size());
    ::_exit(first_error ? 1 : 0);
}

namespace detail::process_run {

/// Whether the cause of a session says more than a LostRank of its rank: the error or mismatch that
/// stopped another rank, or, as a rank that is late for another one does not learn from its own
/// wait who waited, that it was this one.
inline bool says_more(const Cause& cause, int rank) {
    const bool is_own = cause.stopped() && cause.rank == rank;
    if (cause.reason == Reason::mismatch) return true;
    return cause.reason == Reason::error ? !is_own : is_own;
}

/// In the handler of `e`: throws it with what the session knows, as what moves messages need not
/// know why a rank is missing. `sentence`: its cause's, where it says more.
[[noreturn]] inline void rethrow(const LostRank& e, const Cause& cause,
                                 const std::string& sentence = "") {
    const auto outcome = e.delivery().outcome;
    const bool unexplained =
        outcome == Delivery::Outcome::timed_out || outcome == Delivery::Outcome::cancelled;
    const bool died = unexplained && e.lost() == cause.rank && cause.reason == Reason::lost;
    const Delivery delivery = died ? Delivery{cause.outcome(), cause.rank} : e.delivery();
    if (died || !sentence.empty()) throw LostRank(e.where(), delivery, sentence);
    throw;
}

}  // namespace detail::process_run

GX_DECL void throw_loss(Session& session, const std::exception_ptr& own, bool begun) {
    const Cause cause = session.cause();
    if (!cause.is_loss()) return;
    const bool says_more = detail::process_run::says_more(cause, session.rank());
    try {
        if (own && begun) std::rethrow_exception(own);
    } catch (const LostRank& e) {
        detail::process_run::rethrow(e, cause, says_more ? session.sentence() : "");
    }
    throw LostRank({.rank = session.rank(), .operation = begun ? "ending" : "starting"},
                   {cause.outcome(), cause.rank}, session.sentence());
}

GX_DECL void throw_first(Session& session, const std::exception_ptr& own) {
    const Cause cause = session.cause();
    try {
        if (own) std::rethrow_exception(own);
    } catch (const LostRank& e) {
        if (!detail::process_run::says_more(cause, session.rank()))
            detail::process_run::rethrow(e, cause);
    }
    if (cause.stopped()) throw Error(session.sentence());
}

}  // namespace gx::coordination
