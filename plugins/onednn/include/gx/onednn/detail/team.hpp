// team: a fork-join pool: the caller and helper threads run the lanes of one segment.
#pragma once

#include <dlfcn.h>  // dlsym

#include <algorithm>  // max, min
#include <atomic>     // epochs
#include <cstddef>    // size_t
#include <cstdint>    // uint32_t
#include <mutex>      // the pool's list
#include <thread>     // helpers

#include <gx/coordination/process_cores.hpp>  // process_cores
#include <gx/core/function_ref.hpp>           // FunctionRef
#include <gx/core/trivial_vector.hpp>         // lists
#include <gx/onednn/detail/owned_list.hpp>    // helpers

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
    Helper& lend() {
        const std::lock_guard lock(mutex_);
        if (idle_.empty()) {
            Helper& made = all_.add();
            idle_.reserve(static_cast<std::size_t>(all_.count()));  // giving back never allocates
            return made;
        }
        Helper* helper = idle_.back();
        idle_.pop_back();
        return *helper;
    }
    void give_back(Helper& helper) {
        const std::lock_guard lock(mutex_);
        idle_.push_back(&helper);
    }

private:
    std::mutex mutex_;
    OwnedList<Helper> all_{};
    TrivialVector<Helper*> idle_{};
};

inline constexpr int most_threads = 64;

/// Calls job(0), ..., job(threads - 1), the first on the caller, and returns when all are done.
inline void run_team(int threads, FunctionRef<void(int)> job) {
    const OneOpenMpThread alone;
    struct Team {
        Helper* helpers[most_threads] = {};
        int count = 0;
        Team() = default;
        Team(const Team&) = delete;
        Team& operator=(const Team&) = delete;
        ~Team() {
            for (int i = 0; i < count; ++i) {
                helpers[i]->wait();
                Helpers::instance().give_back(*helpers[i]);
            }
        }
    } team;
    for (int t = 1; t < threads; ++t) {
        Helper& helper = Helpers::instance().lend();
        helper.start(job, t);
        team.helpers[team.count++] = &helper;
    }
    job(0);
}

/// Counts the threads that own devices. The process's cores are divided evenly among them: ranks
/// that are threads get a share each, ranks that take turns on one thread get all cores.
class Owners {
public:
    static Owners& instance() {
        static Owners owners;
        return owners;
    }
    void enter(std::thread::id id) {
        const std::lock_guard lock(mutex_);
        Owner* owner = find(id);
        if (owner == nullptr) owner = &owners_.emplace_back({id, 0});
        ++owner->devices;
        count_ = static_cast<int>(owners_.size());
    }
    void leave(std::thread::id id) {
        const std::lock_guard lock(mutex_);
        Owner* owner = find(id);
        if (--owner->devices == 0) owners_.erase(owner);
        count_ = static_cast<int>(owners_.size());
    }
    /// Threads of a device, of which an owner computes on so many `at_once`.
    [[nodiscard]] int threads_each(int at_once) const {
        const int devices = std::max(1, count_.load(std::memory_order_relaxed)) * at_once;
        const int share = coordination::process_cores();
        return std::max(1, (share > 0 ? std::min(share, cores()) : cores()) / devices);
    }
    [[nodiscard]] static int cores() {
        static const int n = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
        return n;
    }

private:
    struct Owner {
        std::thread::id id;
        int devices;
    };
    [[nodiscard]] Owner* find(std::thread::id id) {
        for (Owner& o : owners_)
            if (o.id == id) return &o;
        return nullptr;
    }

    std::mutex mutex_;
    TrivialVector<Owner> owners_{};
    std::atomic<int> count_{0};
};

}  // namespace gx::onednn::detail
