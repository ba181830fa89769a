// sleep_until: waiting on a condition variable that may lose a notification.
#pragma once

#include <algorithm>           // min
#include <chrono>              // steady_clock
#include <condition_variable>  // condition_variable
#include <mutex>               // unique_lock

namespace gx::detail::threads {

/// Sleeps until done(), and at most until `until`; returns what done() said last. Besides being
/// notified it looks ten times a second: glibc before 2.41 can lose a notification (bug 25847 at
/// sourceware.org), and a wait then lasted to its deadline.
/// Threads: `lock` is held when done() is called, and on return.
template <class Done>
bool sleep_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                 std::chrono::steady_clock::time_point until, Done done) {
    while (!done()) {
        const auto now = std::chrono::steady_clock::now();
        if (now >= until) return false;
        changed.wait_until(lock, std::min(until, now + std::chrono::milliseconds(100)));
    }
    return true;
}

/// The same without an end.
template <class Done>
void sleep_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, Done done) {
    (void)sleep_until(changed, lock, std::chrono::steady_clock::time_point::max(), done);
}

}  // namespace gx::detail::threads
