// peer: a program that trains on request, in a process of its own: its own allocator and threads.
#pragma once

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <gx/core/error.hpp>  // Error

namespace gx::bench {

/// Runs `command`, which reads numbers of steps and prints the seconds of each on one line. It has
/// the tuning that PyTorch is quickest with, 2 MiB pages and no trimming, unless it is not `tuned`.
/// It ends with the thread that started it.
class Peer {
public:
    Peer(const std::vector<std::string>& command, int threads, bool tuned = true) {
        int to[2], from[2];
        std::signal(SIGPIPE, SIG_IGN);  // a peer that has ended is an error of steps()
        name_ = command.front();
        if (access(command.front().c_str(), X_OK) != 0) return;
        // No other peer inherits these ends: one that did would keep this one from ever ending.
        if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) return;
        const pid_t benchmark = getpid();
        child_ = fork();
        if (child_ == 0) {
            // A stopped process does not see that its input has ended.
            if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != benchmark) _exit(127);
            dup2(to[0], 0), dup2(from[1], 1);
            setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
            if (tuned)
                setenv("GLIBC_TUNABLES",
                       "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=17179869184:"
                       "glibc.malloc.trim_threshold=17179869184",
                       1);
            std::vector<char*> words;
            for (const std::string& word : command) words.push_back(const_cast<char*>(word.data()));
            words.push_back(nullptr);
            execv(words[0], words.data());
            _exit(127);
        }
        close(to[0]), close(from[1]);
        in_ = fdopen(to[1], "w"), out_ = fdopen(from[0], "r");
    }
    ~Peer() {
        if (in_ == nullptr) return;
        kill(child_, SIGCONT);
        std::fclose(in_), std::fclose(out_), waitpid(child_, nullptr, 0);
    }
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;
    [[nodiscard]] bool there() const { return in_ != nullptr; }
    [[nodiscard]] pid_t process() const { return child_; }
    /// The version in a first line "ready VERSION"; empty when the peer has ended instead.
    std::string ready() {
        char version[64] = "";
        return there() && std::fscanf(out_, "ready %63s", version) == 1 ? version : "";
    }
    /// Seconds of each step.
    /// Errors: gx::Error when the peer has ended: a row without them would compare with nothing.
    std::vector<double> steps(int count) { return expect(std::to_string(count), count); }
    /// As ask(), for a peer that has not ended.
    std::vector<double> expect(const std::string& line, int count) {
        auto all = ask(line, count);
        if (std::ssize(all) != count)
            throw Error("the peer '" + name_ + "' ended within its steps: see what it printed");
        return all;
    }
    /// Writes a line; returns the `count` numbers that follow, or fewer when the peer has ended.
    /// Between its turns it is stopped: threads that wait for work spin, and take the others' time.
    std::vector<double> ask(const std::string& line, int count) {
        kill(child_, SIGCONT);
        std::fprintf(in_, "%s\n", line.c_str()), std::fflush(in_);
        std::vector<double> all;
        for (double t = 0; count > 0 && std::fscanf(out_, "%lf", &t) == 1; --count)
            all.push_back(t);
        kill(child_, SIGSTOP);
        return all;
    }

private:
    pid_t child_ = -1;
    std::FILE *in_ = nullptr, *out_ = nullptr;
    std::string name_{};
};

}  // namespace gx::bench
