// ProcessRun: one run of a world whose ranks are processes, and its first error.
#pragma once

#include <chrono>     // begin
#include <exception>  // exception_ptr
#include <mutex>      // the first error
#include <string>     // sentences

#include <gx/coordination/session.hpp>  // Session
#include <gx/core/decl.hpp>             // GX_DECL

namespace gx::coordination {

/// Whether an exception is a DeviceLost.
[[nodiscard]] GX_DECL bool is_device_lost(const std::exception_ptr& error);
/// What an exception says.
[[nodiscard]] GX_DECL std::string sentence_of(const std::exception_ptr& error);

/// One run of this process's rank. Worlds add their transport.
/// Threads: fail() on any thread of the rank.
struct ProcessRun {
    Session& session;
    std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
    std::mutex mutex{};
    std::exception_ptr first_error{};

    /// Inside a handler: keeps the first exception of this process and stops the other ranks.
    GX_DECL void fail();
    /// Behind the rank's function: ends a child of fork() that has left it, with a line to stderr.
    /// It would wait for threads that only its parent has, and take its parent's messages.
    GX_DECL void end_if_forked();
};

/// Behind a run: throws `own`, its first error on this rank, or gx::Error with the sentence of the
/// session's cause. A LostRank gives way to a cause that says more: the error or mismatch that
/// stopped another rank, or that others waited for this one. Where the lost rank's process died,
/// the LostRank reports it as `lost`, also on ranks whose own wait was for another rank.
GX_DECL void throw_first(Session& session, const std::exception_ptr& own);

/// Behind a run of a world that Shrinks, before throw_first(): throws LostRank where the session's
/// cause is a loss, or `own`, if the loss did not cause it, such as a DeviceLost of this rank.
/// `begun`: whether the rank's function was called; an error before it is a result of the loss.
GX_DECL void throw_loss(Session& session, const std::exception_ptr& own, bool begun);

}  // namespace gx::coordination

#if defined(GX_HEADER_ONLY)
#include <gx/coordination/impl/process_run.ipp>
#endif
