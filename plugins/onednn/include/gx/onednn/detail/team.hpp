// team: a fork-join pool: the caller and helper threads run the lanes of one segment.
#pragma once

#include <dlfcn.h>  // dlsym

#include <algorithm>  // max
#include <atomic>     // epochs
#include <cstdint>    // uint32_t
#include <map>        // devices of each thread
#include <memory>     // unique_ptr
#include <mutex>      // the pool's list
#include <thread>     // helpers
#include <vector>     // helpers

#include <gx/core/function_ref.hpp>  // FunctionRef

namespace gx::onednn::detail {

/// Limits oneDNN to the calling thread while in scope: gx divides the work itself, so that the
/// bits do not depend on how many threads there are. The OpenMP runtime is the one that
/// oneDNN brought into the process.
class OneOpenMpThread {
public:
    OneOpenMpThread() : before_(get() != nullptr ? get()() : 1) {
        if (before_ != 1) set()(1);
    }
    ~OneOpenMpThread() {
        if (before_ != 1) set()(before_);
    }
    OneOpenMpThread(const OneOpenMpThread&) = delete;
    OneOpenMpThread& operator=(const OneOpenMpThread&) = delete;

private:
    using Get = int (*)();
    using Set = void (*)(int);
    static Get get() {
        static const auto f = reinterpret_cast<Get>(::dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
        return f;
    }
    static Set set() {
        static const auto f = reinterpret_cast<Set>(::dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
        return f;
    }
    int before_;
};

/// Waits until the value changes: spins first, since a segment takes microseconds, then sleeps.
template <class T>
void wait_while_equal(const std::atomic<T>& value, T old) {
    for (int spin = 0; spin < 4000; ++spin) {
        if (value.load(std::memory_order_acquire) != old) return;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    value.wait(old, std::memory_order_acquire);
}

/// One helper thread, which runs one job after another.
class Helper {
public:
    Helper() : thread_([this] { loop(); }) {}
    ~Helper() {
        job_ = nullptr;
        post();
        thread_.join();
    }
    void start(const FunctionRef<void(int)>& job, int argument) {
        job_ = &job;
        argument_ = argument;
        post();
    }
    void wait() { wait_while_equal(done_, asked_.load(std::memory_order_relaxed) - 1); }

private:
    void post() {
        asked_.fetch_add(1, std::memory_order_release);
        asked_.notify_one();
    }
    void loop() {
        const OneOpenMpThread alone;
        for (std::uint32_t seen = 0;; ++seen) {
            wait_while_equal(asked_, seen);
            if (job_ == nullptr) return;
            (*job_)(argument_);
            done_.fetch_add(1, std::memory_order_release);
            done_.notify_one();
        }
    }
    std::atomic<std::uint32_t> asked_{0}, done_{0};
    const FunctionRef<void(int)>* job_ = nullptr;
    int argument_ = 0;
    std::thread thread_;  // last, so that it starts when all else is made
};

/// Thread pool of this process; helpers are lent for one segment at a time, so that ranks which
/// take turns on one thread share them.
class Helpers {
public:
    static Helpers& instance() {
        static Helpers pool;
        return pool;
    }
    std::unique_ptr<Helper> lend() {
        {
            const std::lock_guard lock(mutex_);
            if (!idle_.empty()) {
                auto helper = std::move(idle_.back());
                idle_.pop_back();
                return helper;
            }
            idle_.reserve(++made_);  // so that giving back never allocates
        }
        return std::make_unique<Helper>();
    }
    void give_back(std::unique_ptr<Helper> helper) {
        const std::lock_guard lock(mutex_);
        idle_.push_back(std::move(helper));
    }

private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<Helper>> idle_;
    std::size_t made_ = 0;
};

inline constexpr int most_threads = 64;

/// Calls job(0), ..., job(threads - 1), the first on the caller, and returns when all are done.
inline void run_team(int threads, FunctionRef<void(int)> job) {
    const OneOpenMpThread alone;
    std::unique_ptr<Helper> helpers[most_threads];
    for (int t = 1; t < threads; ++t) {
        helpers[t] = Helpers::instance().lend();
        helpers[t]->start(job, t);
    }
    job(0);
    for (int t = 1; t < threads; ++t) {
        helpers[t]->wait();
        Helpers::instance().give_back(std::move(helpers[t]));
    }
}

/// Counts the threads that own devices. The cores are divided evenly among them: ranks that are
/// threads get a share each, ranks that take turns on one thread get all cores.
class Owners {
public:
    static Owners& instance() {
        static Owners owners;
        return owners;
    }
    void enter(std::thread::id id) {
        const std::lock_guard lock(mutex_);
        ++devices_[id];
        count_ = static_cast<int>(devices_.size());
    }
    void leave(std::thread::id id) {
        const std::lock_guard lock(mutex_);
        if (--devices_[id] == 0) devices_.erase(id);
        count_ = static_cast<int>(devices_.size());
    }
    [[nodiscard]] int threads_each() const {
        return std::max(1, cores() / std::max(1, count_.load(std::memory_order_relaxed)));
    }
    [[nodiscard]] static int cores() {
        static const int n = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
        return n;
    }

private:
    std::mutex mutex_;
    std::map<std::thread::id, int> devices_;
    std::atomic<int> count_{0};
};

}  // namespace gx::onednn::detail
