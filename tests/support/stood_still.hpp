// stood_still: a child process that is stopped for a while and goes on, as after Ctrl-Z and fg.
#pragma once

#include <signal.h>    // kill
#include <sys/wait.h>  // waitpid
#include <unistd.h>    // fork, pipe

#include <chrono>  // milliseconds
#include <thread>  // sleep_for

#include <gtest/gtest.h>

namespace testing_support {

/// The child's end of two pipes.
struct Standstill {
    int to_parent = -1, from_parent = -1;

    /// The child is where it is to be stopped.
    void ready() const { (void)!::write(to_parent, "r", 1); }
    /// Returns once it has gone on.
    void wait_until_over() const {
        char c = 0;
        (void)!::read(from_parent, &c, 1);
    }
};

/// Runs f(standstill) in a child process, stops that for `pause` once it is ready, and lets it go
/// on. Returns the child's exit status: what f returns; -1 where it has another end.
template <class F>
int after_standstill(std::chrono::milliseconds pause, F f) {
    int up[2] = {}, down[2] = {};
    if (::pipe(up) != 0 || ::pipe(down) != 0) return -1;
    const pid_t child = ::fork();
    if (child == 0) {
        ::close(up[0]);
        ::close(down[1]);
        ::_exit(f(Standstill{up[1], down[0]}));
    }
    ::close(up[1]);
    ::close(down[0]);
    char c = 0;
    (void)!::read(up[0], &c, 1);
    ::kill(child, SIGSTOP);
    int status = 0;
    ::waitpid(child, &status, WUNTRACED);
    std::this_thread::sleep_for(pause);
    ::kill(child, SIGCONT);
    (void)!::write(down[1], "g", 1);
    if (!WIFEXITED(status)) ::waitpid(child, &status, 0);
    ::close(up[0]);
    ::close(down[1]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace testing_support
