// What the tests of the double share: a fresh double, sentences, small memory.
#pragma once

#include <gtest/gtest.h>

#include <sys/wait.h>  // forked children
#include <unistd.h>    // fork, pipe

#include <csignal>  // SIGSEGV
#include <cstdlib>  // _Exit
#include <filesystem>
#include <set>
#include <stdexcept>  // runtime_error
#include <string>
#include <vector>

#include <gx/cuda_testing/runtime.hpp>

extern "C" [[gnu::weak]] void __gcov_dump();  // where coverage is measured

namespace double_test {

/// The handler that the double's gives faults on to: a child ends by the signal, also where a
/// sanitizer would report it.
inline const bool ends_by_the_signal = [] {
    std::signal(SIGSEGV, [](int) {
        if (__gcov_dump != nullptr) __gcov_dump();
        std::signal(SIGSEGV, SIG_DFL);
        std::raise(SIGSEGV);
    });
    return true;
}();

using namespace gx::cuda_testing;

inline void ok(cudaError_t error) {
    if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorName(error));
}

/// The sentence of the misuse that f ends in; "" if there is none.
template <class F>
std::string sentence_of(F f) {
    try {
        f();
    } catch (const Misuse& e) {
        return e.what();
    }
    return "";
}

/// A fresh double for each test. It runs work in each of the three ways where a test asks for it.
class Double : public ::testing::Test {
protected:
    void SetUp() override { start({}); }
    void TearDown() override { start({}); }
    static void start(RuntimeOptions o) {
        o.check_at_exit = false;  // tests of leaks leave them
        reset(o);
    }
    /// Runs f on a double of each progress and of some seeds.
    template <class F>
    static void in_every_order(F f) {
        for (const auto progress :
             {StreamProgress::late, StreamProgress::eager, StreamProgress::random})
            for (std::uint64_t seed = 1; seed <= 5; ++seed) {
                SCOPED_TRACE("progress " + std::to_string(static_cast<int>(progress)) + ", seed " +
                             std::to_string(seed));
                start({.seed = seed, .progress = progress});
                f();
            }
    }
};

inline int threads_of_process() {
    int count = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
        count += task.is_directory();
    return count;
}
inline cudaStream_t new_stream(unsigned int flags = cudaStreamNonBlocking) {
    cudaStream_t s{};
    ok(cudaStreamCreateWithFlags(&s, flags));
    return s;
}
inline cudaEvent_t new_event(unsigned int flags = cudaEventDisableTiming) {
    cudaEvent_t e{};
    ok(cudaEventCreateWithFlags(&e, flags));
    return e;
}
template <class T = int>
T* device_memory(std::size_t count) {
    void* p = nullptr;
    ok(cudaMalloc(&p, count * sizeof(T)));
    return static_cast<T*>(p);
}
template <class T = int>
T* pinned_memory(std::size_t count) {
    void* p = nullptr;
    ok(cudaMallocHost(&p, count * sizeof(T)));
    return static_cast<T*>(p);
}
template <class T>
void copy(T* to, const T* from, std::size_t count, cudaStream_t s) {
    ok(cudaMemcpyAsync(to, from, count * sizeof(T), cudaMemcpyDefault, s));
}
/// A kernel that adds `n` to one number.
inline void add(int* at, int n, cudaStream_t s, const char* name = "add") {
    enqueue_kernel(s, name, [=] {
        report_access(at, sizeof *at, true, name);
        *at += n;
    });
}

/// How a child that runs f ends, and what it writes to standard error.
struct Ending {
    int signal = 0;
    int status = 0;
    std::string text{};
};
[[noreturn]] inline void end_child(int status) {
    if (__gcov_dump != nullptr) __gcov_dump();
    ::_exit(status);
}
template <class F>
Ending in_child(F f) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
    const pid_t child = ::fork();
    if (child == 0) {
        ::dup2(ends[1], 2);
        ::close(ends[0]);
        try {
            f();
        } catch (const std::exception& e) {
            const std::string text = e.what();
            [[maybe_unused]] const auto n = ::write(2, text.data(), text.size());
            end_child(3);
        }
        end_child(0);
    }
    ::close(ends[1]);
    Ending ending;
    char buffer[512];
    for (ssize_t n = 0; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;)
        ending.text.append(buffer, static_cast<std::size_t>(n));
    ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) ending.signal = WTERMSIG(status);
    if (WIFEXITED(status)) ending.status = WEXITSTATUS(status);
    return ending;
}

}  // namespace double_test
