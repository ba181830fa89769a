// Guard: the bodies, and the handlers of signals.
#pragma once

#include <signal.h>     // sigaction
#include <sys/prctl.h>  // PR_SET_PDEATHSIG
#include <time.h>       // nanosleep
#include <unistd.h>     // write, _exit, getppid

#include <algorithm>     // max, min
#include <atomic>        // what handlers read
#include <cstdlib>       // getenv
#include <set>           // sentences
#include <string>        // sentences
#include <system_error>  // no thread is left
#include <utility>       // exchange

#include <gx/core/error.hpp>  // Error
#include <gx/mpi/call.hpp>    // MPI
#include <gx/mpi/guard.hpp>   // the declarations

namespace gx::mpi {

namespace detail::guard {

/// What handlers of signals share with the guard; they call nothing that is not safe in one.
struct Signals {
    std::atomic<bool> terminated = false, aborting = false;
    std::atomic<bool> has_cause = false;  ///< the guard ends the process
};
inline Signals signals;

/// How many hold the handlers, of all threads; what a meeting prints.
inline std::atomic<int> guards = 0, meetings = 0;
inline std::atomic<const std::string*> meeting_sentence = nullptr;

inline void write_all(const std::string& text) {
    for (std::size_t at = 0; at < text.size();) {
        const auto n = ::write(STDERR_FILENO, text.data() + at, text.size() - at);
        if (n <= 0) break;
        at += static_cast<std::size_t>(n);
    }
}

/// A child of fork() has the handlers of its parent, and none of its guards.
inline std::atomic<pid_t> process = 0;
inline bool leave_to_system(int signal) {
    if (::getpid() == process) return false;
    struct sigaction plain{};
    plain.sa_handler = SIG_DFL;
    (void)::sigaction(signal, &plain, nullptr);
    (void)::raise(signal);  // once the handler has returned
    return true;
}

inline void on_terminate(int) {
    if (leave_to_system(SIGTERM)) return;
    signals.terminated = true;
    if (guards > 0) return;  // one of them ends the process
    write_all(*meeting_sentence);
    ::_exit(128 + SIGTERM);
}

inline void on_abort(int) {
    if (leave_to_system(SIGABRT)) return;
    signals.aborting = true;
    constexpr long step_ns = 10'000'000;
    for (int i = 0; i < 50 || signals.has_cause; ++i) {  // with a cause: until the guard ends it
        const timespec step{.tv_sec = 0, .tv_nsec = step_ns};
        (void)::nanosleep(&step, nullptr);
    }
    struct sigaction plain{};
    plain.sa_handler = SIG_DFL;
    (void)::sigaction(SIGABRT, &plain, nullptr);
    (void)::raise(SIGABRT);
}

/// As the launcher has numbered it; "" where there is none.
inline std::string rank_of_launcher() {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"})
        if (const char* const rank = std::getenv(name)) return std::string(" ") + rank;
    return "";
}

inline void handle_by(int number, void (*from)(int), void (*to)(int), bool& moved) {
    struct sigaction now{};
    (void)::sigaction(number, nullptr, &now);
    moved = (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == from;
    if (!moved) return;
    struct sigaction next{};
    next.sa_handler = to;
    (void)::sigaction(number, &next, nullptr);
}
/// Takes a signal where the program leaves it to the system. Returns whether it did.
[[nodiscard]] inline bool take(int number, void (*handler)(int)) {
    bool taken = false;
    process = ::getpid();
    handle_by(number, SIG_DFL, handler, taken);
    return taken;
}
/// Gives back what was taken, unless the program has set another handler since.
inline void give_back(int number, void (*handler)(int), bool taken) {
    if (taken) handle_by(number, handler, SIG_DFL, taken);
}

/// The handlers of this process, from the first that needs them to the last, of any thread.
class Handlers {
public:
    /// `count` is above 0 while the handler is set.
    void hold_terminate(std::atomic<int>& count) {
        const std::lock_guard lock(mutex_);
        ++count;
        if (guards + meetings == 1) has_terminate_ = take(SIGTERM, on_terminate);
    }
    /// Returns whether a signal came that no guard has answered.
    [[nodiscard]] bool release_terminate(std::atomic<int>& count) {
        const std::lock_guard lock(mutex_);
        const bool had = has_terminate_;
        if (guards + meetings == 1) {
            give_back(SIGTERM, on_terminate, has_terminate_);
            has_terminate_ = false;
        }
        --count;
        return guards == 0 && had && signals.terminated.exchange(false);
    }
    void hold_abort() {
        const std::lock_guard lock(mutex_);
        if (aborts_++ == 0) has_abort_ = take(SIGABRT, on_abort);
    }
    void release_abort() {
        const std::lock_guard lock(mutex_);
        if (--aborts_ == 0) give_back(SIGABRT, on_abort, std::exchange(has_abort_, false));
    }
    [[nodiscard]] bool has_terminate() {
        const std::lock_guard lock(mutex_);
        return has_terminate_;
    }
    /// For on_terminate(): before a meeting holds it. Sentences stay where they are.
    void set_sentence(const std::string& sentence) {
        const std::lock_guard lock(mutex_);
        meeting_sentence = &*sentences_.insert(sentence).first;
    }

private:
    std::mutex mutex_{};
    std::set<std::string> sentences_{};
    int aborts_ = 0;
    bool has_terminate_ = false, has_abort_ = false;
};
inline Handlers& handlers() {
    static auto* const one = new Handlers();
    return *one;
}

/// Asks for `signal` when the parent of this process ends. Returns what this thread had before.
inline int signal_of_parents_end(int signal) {
    int before = 0;
    (void)::prctl(PR_GET_PDEATHSIG, &before);
    (void)::prctl(PR_SET_PDEATHSIG, signal);
    return before;
}
/// Whether the launcher was gone before its end could be heard of: below MPICH's Hydra (PMI_FD) a
/// rank is never a child of the first process.
inline bool is_orphan() { return std::getenv("PMI_FD") != nullptr && ::getppid() == 1; }

}  // namespace detail::guard

GX_DECL MeetingGuard::MeetingGuard(std::string_view when) {
    namespace d = detail::guard;
    d::handlers().set_sentence(
        "gx: rank" + d::rank_of_launcher() +
        " is ended by its launcher in operation meeting of all ranks, " + std::string(when) +
        ". Look at the errors of the other ranks, and at what the launcher says of "
        "them\n");
    d::handlers().hold_terminate(d::meetings);
    parent_signal_ = d::signal_of_parents_end(SIGTERM);
    if (d::handlers().has_terminate() && d::is_orphan()) (void)::raise(SIGTERM);
}

GX_DECL MeetingGuard::~MeetingGuard() {
    namespace d = detail::guard;
    (void)d::signal_of_parents_end(parent_signal_);
    if (d::handlers().release_terminate(d::meetings)) (void)::raise(SIGTERM);
}

GX_DECL Alarm::Alarm(std::chrono::nanoseconds limit, std::function<void()> late) {
    const auto watch = [this, limit, late = std::move(late)] {
        {
            std::unique_lock lock(mutex_);
            if (changed_.wait_for(lock, limit, [&] { return over_; })) return;
        }
        late();
    };
    try {
        thread_ = std::thread(watch);
    } catch (const std::system_error& e) {
        throw Error(std::string("a thread can't be made: ") + e.what());
    }
}

GX_DECL Alarm::~Alarm() {
    {
        const std::lock_guard lock(mutex_);
        over_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

GX_DECL CallLimit::CallLimit(const char* call, std::chrono::nanoseconds limit,
                             std::string_view when)
    : alarm_(limit, [call, limit, when = std::string(when)] {
          int finalized = 0;
          (void)MPI_Finalized(&finalized);
          if (finalized != 0) return;
          namespace d = detail::guard;
          const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(limit).count();
          d::write_all("gx: rank" + d::rank_of_launcher() + " has waited for " +
                       std::to_string(ms) + " ms in " + call +
                       ", in operation meeting of all ranks, " + when +
                       ": another rank has ended, or has not come. Look at the errors of the other "
                       "ranks, and at what the launcher says of them\n");
          ::_exit(1);
      }) {}

GX_DECL Guard::Guard(coordination::Session& session, std::chrono::nanoseconds patience)
    : session_(session), patience_(patience) {
    namespace d = detail::guard;
    try {
        thread_ = std::thread([this] { watch(); });
    } catch (const std::system_error& e) {
        throw Error(std::string("a thread can't be made: ") + e.what());
    }
    d::handlers().hold_terminate(d::guards);
    d::handlers().hold_abort();
    parent_signal_ = d::signal_of_parents_end(SIGTERM);
}

GX_DECL void Guard::returned() {
    {
        const std::lock_guard lock(mutex_);
        returned_ = true;
        detail::guard::signals.has_cause = false;
    }
    changed_.notify_all();
}

GX_DECL Guard::~Guard() {
    {
        const std::lock_guard lock(mutex_);
        over_ = true;
    }
    changed_.notify_all();
    thread_.join();
    namespace d = detail::guard;
    (void)d::signal_of_parents_end(parent_signal_);
    d::handlers().release_abort();
    if (d::handlers().release_terminate(d::guards)) (void)::raise(SIGTERM);
}

GX_DECL void Guard::hear() {
    if (!session_.cause().stopped()) return;
    {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
    }
    changed_.notify_all();
}

GX_DECL void Guard::watch() {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::milliseconds look{20};  // at what a handler of signals has set
    constexpr std::chrono::milliseconds patience_with_launcher{500};
    auto& signals = detail::guard::signals;
    auto end = Clock::time_point::max();
    bool terminated = false;
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait_for(lock, look);
        if (over_) return;
        if (stopped_ && !returned_ && !signals.has_cause) {
            signals.has_cause = true;
            end = std::min(end, Clock::now() + patience_);
        }
        if (signals.terminated && !terminated) {
            terminated = true;
            end = std::min(end, Clock::now() + patience_with_launcher);
        }
        if (returned_ && !terminated) continue;
        if (Clock::now() >= end || (stopped_ && signals.aborting)) end_process();
    }
}

GX_DECL void Guard::end_process() {
    std::string text = session_.sentence();
    if (text.empty())
        text = "rank " + std::to_string(session_.rank()) +
               " is ended by its launcher, and no error of a rank was known";
    detail::guard::write_all("gx: " + text + "\n");
    constexpr int by_launcher = 128 + SIGTERM;
    ::_exit(stopped_ ? std::max(1, session_.exit_status()) : by_launcher);
}

}  // namespace gx::mpi
