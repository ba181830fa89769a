// The first error of a run: kept, sent to the other ranks, and thrown.
#pragma once

#include <gx/coordination/process_run.hpp>  // the declarations
#include <gx/core/error.hpp>                // Error, LostRank, DeviceLost

namespace gx::coordination {

GX_DECL std::string sentence_of(const std::exception_ptr& error) {
    try {
        std::rethrow_exception(error);
    } catch (const std::exception& e) {
        return e.what();
    } catch (...) {
        return "an exception that is no std::exception";
    }
}

GX_DECL void ProcessRun::fail() {
    const std::lock_guard lock(mutex);
    if (first_error) return;
    first_error = std::current_exception();
    int exit_status = 1;
    try {
        throw;
    } catch (const DeviceLost&) {
        exit_status = device_lost;
    } catch (...) {
    }
    session.fail(sentence_of(first_error), exit_status);
}

GX_DECL void throw_first(Session& session, const std::exception_ptr& own) {
    const Cause cause = session.cause();
    const bool is_own = cause.stopped() && cause.rank == session.rank();
    // A rank that is late for another one does not learn from its own wait who waited.
    const bool says_more =
        cause.reason == Reason::mismatch || (cause.reason == Reason::error ? !is_own : is_own);
    try {
        if (own) std::rethrow_exception(own);
    } catch (const LostRank&) {
        if (!says_more) throw;
    }
    if (cause.stopped()) throw Error(session.sentence());
}

}  // namespace gx::coordination
