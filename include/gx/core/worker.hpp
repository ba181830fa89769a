// Worker: a stream that is a thread: tasks in order, from a queue of fixed size.
#pragma once

#include <condition_variable>  // sleeping
#include <cstdint>             // uint64_t
#include <functional>          // what to do when a task throws
#include <mutex>               // the queue's lock
#include <thread>              // the worker
#include <utility>             // move
#include <vector>              // the queue

#include <gx/core/stream.hpp>  // Task, Event, Stream

namespace gx::detail::threads {

/// Runs tasks on a thread of its own, in the order of queueing.
/// Errors: a task that throws is reported to `on_error`; later tasks still run.
/// Cost:   enqueue allocates nothing; it waits while `capacity` tasks are queued.
class Worker {
public:
    struct Options {
        std::function<void()> on_start{};  ///< on the worker, before the first task
        std::function<void()> on_error{};  ///< on the worker, inside the handler: current_exception
        std::function<void()> on_cancel{};  ///< cancel() was called
        std::size_t capacity = 1024;
    };

    explicit Worker(Options options)
        : options_(std::move(options)), queue_(options_.capacity), thread_([this] { work(); }) {}
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    /// Finishes what is queued.
    ~Worker() {
        {
            const std::lock_guard lock(mutex_);
            closing_ = true;
        }
        changed_.notify_all();
        thread_.join();
    }

    Event enqueue(Task task) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return queued_ - done_ < queue_.size(); });
        queue_[queued_ % queue_.size()] = task;
        ++queued_;
        const Event event{queued_};
        lock.unlock();
        changed_.notify_all();
        return event;
    }

    void wait(Event event) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return done_ >= event.sequence; });
    }

    /// Waits for everything that has been queued.
    void drain() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return done_ == queued_; });
    }

    /// Stops the world: what the queued tasks wait for will not come. They still run.
    void cancel() {
        if (options_.on_cancel) options_.on_cancel();
    }

private:
    void work() {
        guarded([&] {
            if (options_.on_start) options_.on_start();
        });
        std::unique_lock lock(mutex_);
        for (;;) {
            changed_.wait(lock, [&] { return closing_ || done_ < queued_; });
            if (done_ == queued_) return;
            const Task task = queue_[done_ % queue_.size()];
            lock.unlock();
            guarded([&] { task.run(task.context, task.argument); });
            lock.lock();
            ++done_;
            changed_.notify_all();
        }
    }

    template <class F>
    void guarded(F f) {
        try {
            f();
        } catch (...) {
            if (options_.on_error) options_.on_error();
        }
    }

    Options options_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Task> queue_;
    std::uint64_t queued_ = 0;
    std::uint64_t done_ = 0;
    bool closing_ = false;
    std::thread thread_;
};
static_assert(Stream<Worker>);

}  // namespace gx::detail::threads
