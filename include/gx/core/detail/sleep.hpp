// sleep_until: waiting on a condition variable that may lose a notification.
#pragma once

#include <chrono>              // nanoseconds
#include <condition_variable>  // condition_variable
#include <mutex>               // unique_lock

#include <gx/core/detail/patience.hpp>  // Patience

namespace gx::detail {

/// Sleeps until done(), or until patience has ended; returns what done() said last. Besides being
/// notified it looks ten times a second: glibc before 2.41 can lose a notification (bug 25847 at
/// sourceware.org), and a wait then lasted to its deadline.
/// Threads: `lock` is held when done() is called, and on return.
template <class Done>
bool sleep_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                 Patience& patience, Done done) {
    while (!done()) {
        if (patience.ended()) return false;
        changed.wait_until(lock, patience.next_look());
    }
    return true;
}

/// The same without an end.
template <class Done>
void sleep_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, Done done) {
    Patience endless(std::chrono::nanoseconds::max());
    (void)sleep_until(changed, lock, endless, done);
}

}  // namespace gx::detail
