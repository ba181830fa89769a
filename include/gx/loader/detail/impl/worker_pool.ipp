// Threads of a WorkerPool.
#pragma once

#include <utility>  // exchange

#include <gx/loader/detail/worker_pool.hpp>  // the declarations

namespace gx::detail::loader {

GX_DECL WorkerPool::WorkerPool(int workers) {
    if (workers == 1) return;
    for (int i = 0; i < workers; ++i)
        threads_.emplace_back([this, worker = std::size_t(i)](const std::stop_token& stop) {
            std::unique_lock lock(mutex_);
            while (changed_.wait(lock, stop, [&] { return next_ < items_; }))
                work_off(lock, worker);
        });
}

GX_DECL void WorkerPool::run(std::size_t items, Work work) {
    std::unique_lock lock(mutex_);
    work_ = &work;
    items_ = items;
    next_ = done_ = 0;
    if (threads_.empty()) {
        work_off(lock, 0);
    } else {
        changed_.notify_all();
        changed_.wait(lock, [&] { return done_ == items_; });
    }
    items_ = next_ = 0;
    if (const auto trouble = std::exchange(trouble_, nullptr)) std::rethrow_exception(trouble);
}

GX_DECL void WorkerPool::work_off(std::unique_lock<std::mutex>& lock, std::size_t worker) {
    while (next_ < items_) {
        const std::size_t item = next_++;
        const Work& work = *work_;
        lock.unlock();
        std::exception_ptr trouble;
        try {
            work(item, worker);
        } catch (...) {
            trouble = std::current_exception();
        }
        lock.lock();
        if (trouble && (!trouble_ || item < failed_)) {
            trouble_ = trouble;
            failed_ = item;
        }
        if (++done_ == items_) changed_.notify_all();
    }
}

}  // namespace gx::detail::loader
