// Guard: ends a process whose rank does not return after a cause to stop.
// MeetingGuard, CallLimit: the same while the ranks meet.
#pragma once

#include <chrono>              // patience
#include <condition_variable>  // waits
#include <functional>          // what an alarm does
#include <mutex>               // its state
#include <string_view>         // the phase
#include <thread>              // the watch

#include <gx/coordination/session.hpp>  // Session
#include <gx/core/decl.hpp>             // GX_DECL

namespace gx::mpi {

/// Watches one run of this process, from a thread of its own.
///
///     a cause     the rank has `patience` to return; then the cause's sentence goes to stderr, and
///                 the process exits with the session's status: it may compute, or hang inside MPI
///     SIGTERM     of the launcher, or the launcher is gone (PR_SET_PDEATHSIG): the rank has half a
///                 second to return, in which a cause may come; then the process says what is known
///                 and exits with 143. Behind a rank that returns in that time without a cause the
///                 signal is raised again, for the program's own handler or the system's
///     SIGABRT     of UCX, below MPICH, where it reads memory of a process that is gone: the
///                 thread is held for half a second, in which the cause comes and names that rank
///
/// Signals are handled where the program has no handler for them, and until the guard is destroyed,
/// which after a cause it is not. Guards of several threads, or inside of another one, share them.
class Guard {
public:
    /// Errors: gx::Error where the system has no thread left.
    GX_DECL Guard(coordination::Session& session, std::chrono::nanoseconds patience);
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    GX_DECL ~Guard();
    /// The rank has returned: the process goes on after a cause. Signals are still handled.
    GX_DECL void returned();

    /// The session may have a cause. On its monitor.
    GX_DECL void hear();

private:
    GX_DECL void watch();
    [[noreturn]] GX_DECL void end_process();

    coordination::Session& session_;
    std::chrono::nanoseconds patience_;
    std::mutex mutex_{};
    std::condition_variable changed_{};
    bool stopped_ = false, returned_ = false, over_ = false;
    int parent_signal_ = 0;  ///< that the thread had before
    std::thread thread_{};
};

/// Prints the phase when the launcher sends SIGTERM during the rendezvous of all ranks. That is
/// before the first run or after one. Which rank is lost, only the launcher knows then. The death
/// of the launcher counts as its signal. Active from construction to destruction, unless the
/// program has a handler of its own.
class MeetingGuard {
public:
    /// `when`: "before the first run" or "after a run".
    GX_DECL explicit MeetingGuard(std::string_view when);
    MeetingGuard(const MeetingGuard&) = delete;
    MeetingGuard& operator=(const MeetingGuard&) = delete;
    GX_DECL ~MeetingGuard();

private:
    int parent_signal_ = 0;
};

/// Calls `late` on a thread of its own, unless it is destroyed within `limit`.
/// Errors: gx::Error where the system has no thread left.
class Alarm {
public:
    GX_DECL Alarm(std::chrono::nanoseconds limit, std::function<void()> late);
    Alarm(const Alarm&) = delete;
    Alarm& operator=(const Alarm&) = delete;
    GX_DECL ~Alarm();

private:
    std::mutex mutex_{};
    std::condition_variable changed_{};
    bool over_ = false;
    std::thread thread_{};
};

/// Ends this process, unless it is destroyed within `limit`, or MPI is finalised then. It ends with
/// status 1 and a sentence that names `call`. Around a function of MPI that waits for all ranks
/// inside of the library, which none can stop: where a rank is gone, MPI_Init_thread may wait for
/// ever.
/// Errors: as Alarm.
/// Cost:   a thread, as long as it lives.
class CallLimit {
public:
    /// `when`: "before the first run", or "at the end of the job".
    GX_DECL CallLimit(const char* call, std::chrono::nanoseconds limit,
                      std::string_view when = "before the first run");

private:
    Alarm alarm_;
};

}  // namespace gx::mpi

#if defined(GX_HEADER_ONLY)
#include <gx/mpi/impl/guard.ipp>
#endif
