// Worker: the bodies.
#pragma once

#include <utility>  // move

#include <gx/core/contract.hpp>      // GX_EXPECT
#include <gx/core/detail/sleep.hpp>  // sleep_until
#include <gx/threads/worker.hpp>     // Worker

namespace gx::detail::threads {

// Runs `f`; what it throws is reported inside the handler.
template <class F>
void guarded(const std::function<void()>& on_error, F f) {
    try {
        f();
    } catch (...) {
        if (on_error) on_error();
    }
}

GX_DECL Worker::Worker(Options options)
    : options_(std::move(options)), queue_(options_.capacity), thread_([this] { work(); }) {}

GX_DECL Worker::~Worker() {
    {
        const std::lock_guard lock(mutex_);
        closing_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

GX_DECL Event Worker::enqueue(Task task) {
    std::unique_lock lock(mutex_);
    sleep_until(changed_, lock, [&] { return queued_ - done_ < queue_.size(); });
    queue_[queued_ % queue_.size()] = task;
    ++queued_;
    const Event event{queued_, options_.id};
    lock.unlock();
    changed_.notify_all();
    return event;
}

GX_DECL void Worker::wait(Event event) {
    std::unique_lock lock(mutex_);
    GX_EXPECT(event.sequence == 0 || (event.stream == options_.id && event.sequence <= queued_),
              "this event is not of this stream: wait for what its enqueue() has returned");
    sleep_until(changed_, lock, [&] { return done_ >= event.sequence; });
}

GX_DECL void Worker::drain() {
    std::unique_lock lock(mutex_);
    sleep_until(changed_, lock, [&] { return done_ == queued_; });
}

GX_DECL void Worker::cancel() {
    if (options_.on_cancel) options_.on_cancel();
}

GX_DECL void Worker::work() {
    guarded(options_.on_error, [&] {
        if (options_.on_start) options_.on_start();
    });
    std::unique_lock lock(mutex_);
    for (;;) {
        sleep_until(changed_, lock, [&] { return closing_ || done_ < queued_; });
        if (done_ == queued_) return;
        const Task task = queue_[done_ % queue_.size()];
        lock.unlock();
        guarded(options_.on_error, [&] { task.run(task.context, task.argument); });
        lock.lock();
        ++done_;
        changed_.notify_all();
    }
}

}  // namespace gx::detail::threads
