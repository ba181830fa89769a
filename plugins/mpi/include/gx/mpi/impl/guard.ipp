// Guard: the bodies, and the handlers of signals.
#pragma once

#include <signal.h>     // sigaction
#include <sys/prctl.h>  // PR_SET_PDEATHSIG
#include <time.h>       // nanosleep
#include <unistd.h>     // write, _exit

#include <algorithm>     // max, min
#include <atomic>        // what handlers read
#include <cstdlib>       // getenv
#include <string>        // sentences
#include <system_error>  // no thread is left

#include <gx/core/error.hpp>  // Error
#include <gx/mpi/guard.hpp>   // the declarations

namespace gx::mpi {

namespace detail::guard {

/// What handlers of signals share with the guard; they call nothing that is not safe in one.
struct Signals {
    std::atomic<bool> terminated = false, aborting = false;
    std::atomic<bool> has_cause = false;  ///< the guard ends the process
};
inline Signals signals;

inline void on_terminate(int) { signals.terminated = true; }

inline void on_abort(int) {
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

/// Written before the handler is set.
inline std::string start_sentence;
inline void on_terminate_at_start(int) {
    [[maybe_unused]] const auto n =
        ::write(STDERR_FILENO, start_sentence.data(), start_sentence.size());
    ::_exit(128 + SIGTERM);
}

/// As the launcher has numbered it; "" where there is none.
inline std::string rank_of_launcher() {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"})
        if (const char* const rank = std::getenv(name)) return std::string(" ") + rank;
    return "";
}

/// Takes a signal where the program leaves it to the system; nullptr gives it back.
inline void handle(int number, void (*mine)(int), void (*handler)(int)) {
    struct sigaction now{};
    (void)::sigaction(number, nullptr, &now);
    const bool ours =
        (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == (handler == nullptr ? mine : SIG_DFL);
    if (!ours) return;
    struct sigaction next{};
    next.sa_handler = handler == nullptr ? SIG_DFL : handler;
    (void)::sigaction(number, &next, nullptr);
}

}  // namespace detail::guard

GX_DECL StartGuard::StartGuard() {
    namespace d = detail::guard;
    d::start_sentence = "gx: rank" + d::rank_of_launcher() +
                        " is ended by its launcher in operation meeting of all ranks, before a "
                        "run. Look at the errors of the other ranks, and at what the "
                        "launcher says of them\n";
    d::handle(SIGTERM, d::on_terminate_at_start, d::on_terminate_at_start);
    (void)::prctl(PR_SET_PDEATHSIG, SIGTERM);  // the launcher is gone
}

GX_DECL StartGuard::~StartGuard() {
    (void)::prctl(PR_SET_PDEATHSIG, 0);
    detail::guard::handle(SIGTERM, detail::guard::on_terminate_at_start, nullptr);
}

GX_DECL Guard::Guard(coordination::Session& session, std::chrono::nanoseconds patience)
    : session_(session), patience_(patience) {
    namespace d = detail::guard;
    try {
        thread_ = std::thread([this] { watch(); });
    } catch (const std::system_error& e) {
        throw Error(std::string("a thread can't be made: ") + e.what());
    }
    d::handle(SIGTERM, d::on_terminate, d::on_terminate);
    d::handle(SIGABRT, d::on_abort, d::on_abort);
    (void)::prctl(PR_SET_PDEATHSIG, SIGTERM);
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
    (void)::prctl(PR_SET_PDEATHSIG, 0);
    namespace d = detail::guard;
    d::handle(SIGTERM, d::on_terminate, nullptr);
    d::handle(SIGABRT, d::on_abort, nullptr);
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
    text = "gx: " + text + "\n";
    for (std::size_t at = 0; at < text.size();) {
        const auto n = ::write(STDERR_FILENO, text.data() + at, text.size() - at);
        if (n <= 0) break;
        at += static_cast<std::size_t>(n);
    }
    constexpr int by_launcher = 128 + SIGTERM;
    ::_exit(stopped_ ? std::max(1, session_.exit_status()) : by_launcher);
}

}  // namespace gx::mpi
