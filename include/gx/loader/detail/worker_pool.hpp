// WorkerPool: runs one function for many items on a fixed number of threads.
#pragma once

#include <condition_variable>  // waits
#include <cstddef>             // size_t
#include <exception>           // exception_ptr
#include <mutex>               // guards what threads see
#include <stop_token>          // an end to waiting
#include <thread>              // jthread
#include <vector>              // threads

#include <gx/core/decl.hpp>          // GX_DECL
#include <gx/core/function_ref.hpp>  // FunctionRef

namespace gx::detail::loader {

/// Threads that wait for work. With one worker there is none: the caller works itself.
class WorkerPool {
public:
    using Work = FunctionRef<void(std::size_t item, std::size_t worker)>;

    GX_DECL explicit WorkerPool(int workers);
    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;

    /// Calls work(item, worker) for each item below `items`; items of one worker follow each other.
    /// Errors: what the first item that throws has thrown, after all are done.
    GX_DECL void run(std::size_t items, Work work);

private:
    void work_off(std::unique_lock<std::mutex>& lock, std::size_t worker);

    std::mutex mutex_{};
    std::condition_variable_any changed_{};
    const Work* work_ = nullptr;  // of the present run
    std::size_t items_ = 0, next_ = 0, done_ = 0;
    std::size_t failed_ = 0;  // the first item that threw `trouble_`
    std::exception_ptr trouble_{};
    std::vector<std::jthread> threads_{};  // last: joined before anything they use goes away
};

}  // namespace gx::detail::loader

#if defined(GX_HEADER_ONLY)
#include <gx/loader/detail/impl/worker_pool.ipp>
#endif
