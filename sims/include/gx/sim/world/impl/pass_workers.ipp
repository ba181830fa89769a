// Pass and PassWorkers: their members.
#pragma once

#include <system_error>  // no thread
#include <utility>       // exchange

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

GX_DECL PassWorkers::PassWorkers(int threads) {
    workers_.reserve(static_cast<std::size_t>(threads));
    try {
        while (this->threads() < threads) workers_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {  // those that there are do the work
    }
}
GX_DECL PassWorkers::~PassWorkers() {
    {
        const std::lock_guard lock(mutex_);
        closing_ = true;
    }
    queued_.notify_all();
    for (std::thread& worker : workers_) worker.join();
}
GX_DECL void PassWorkers::begin(Pass& pass) {
    {
        const std::lock_guard lock(mutex_);
        (first_ ? last_->next_ : first_) = &pass;
        last_ = &pass;
    }
    queued_.notify_one();
}
GX_DECL void PassWorkers::finish(Pass& pass) {
    std::unique_lock lock(mutex_);
    while (pass.state_ != Pass::State::done)
        if (first_) compute_next(lock);
        else done_.wait(lock);
}
GX_DECL void PassWorkers::work() {
    std::unique_lock lock(mutex_);
    while (!closing_)
        if (first_) compute_next(lock);
        else queued_.wait(lock);
}
GX_DECL void PassWorkers::compute_next(std::unique_lock<std::mutex>& lock) {
    Pass& pass = *first_;
    first_ = std::exchange(pass.next_, nullptr);
    pass.state_ = Pass::State::computing;
    lock.unlock();
    pass.run();
    lock.lock();
    pass.state_ = Pass::State::done;
    done_.notify_all();
}

}  // namespace gx::sim::detail
