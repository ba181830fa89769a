// Pass and PassWorkers: their members.
#pragma once

#include <condition_variable>  // waits
#include <mutex>               // the queue
#include <system_error>        // no thread
#include <thread>              // workers
#include <utility>             // exchange
#include <vector>              // workers

#include <gx/sim/world/pass_workers.hpp>  // the declarations

namespace gx::sim::detail {

GX_DECL Pass::Pass(PassWorkers* workers, FunctionRef<void()> compute)
    : workers_(workers), compute_(compute) {
    if (workers_) workers_->begin(*this);
    else run();
}
GX_DECL Pass::~Pass() {
    if (workers_) workers_->finish(*this);
}
GX_DECL void Pass::finish() {
    if (workers_) std::exchange(workers_, nullptr)->finish(*this);
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

GX_DECL void Pass::run() {
    try {
        compute_();
    } catch (...) {
        error_ = std::current_exception();
    }
}

/// What is queued, and who computes it.
struct PassWorkers::Queue {
    explicit Queue(int threads) {
        workers.reserve(static_cast<std::size_t>(threads));
        try {
            while (static_cast<int>(workers.size()) + 1 < threads)
                workers.emplace_back([this] { work(); });
        } catch (const std::system_error&) {  // those that there are do the work
        }
    }
    ~Queue() {
        {
            const std::lock_guard lock(mutex);
            closing = true;
        }
        queued.notify_all();
        for (std::thread& worker : workers) worker.join();
    }
    void work() {
        std::unique_lock lock(mutex);
        while (!closing)
            if (first) compute_next(lock);
            else queued.wait(lock);
    }
    void compute_next(std::unique_lock<std::mutex>& lock) {
        Pass& pass = *first;
        first = std::exchange(pass.next_, nullptr);
        pass.state_ = Pass::State::computing;
        lock.unlock();
        pass.run();
        lock.lock();
        pass.state_ = Pass::State::done;
        done.notify_all();
    }

    std::mutex mutex;
    std::condition_variable queued, done;
    Pass *first = nullptr, *last = nullptr;
    bool closing = false;
    std::vector<std::thread> workers{};
};

GX_DECL PassWorkers::PassWorkers(int threads) : queue_(std::make_unique<Queue>(threads)) {}
GX_DECL PassWorkers::~PassWorkers() = default;

GX_DECL int PassWorkers::threads() const { return static_cast<int>(queue_->workers.size()) + 1; }

GX_DECL void PassWorkers::begin(Pass& pass) {
    {
        const std::lock_guard lock(queue_->mutex);
        (queue_->first ? queue_->last->next_ : queue_->first) = &pass;
        queue_->last = &pass;
    }
    queue_->queued.notify_one();
}
GX_DECL void PassWorkers::finish(Pass& pass) {
    std::unique_lock lock(queue_->mutex);
    while (pass.state_ != Pass::State::done)
        if (queue_->first) queue_->compute_next(lock);
        else queue_->done.wait(lock);
}

}  // namespace gx::sim::detail
