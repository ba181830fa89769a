// Worker: a stream as a thread: tasks in order, from a queue of fixed size.
#pragma once

#include <condition_variable>  // sleeping
#include <cstdint>             // uint64_t
#include <functional>          // what to do when a task throws
#include <mutex>               // the queue's lock
#include <thread>              // the worker
#include <vector>              // the queue

#include <gx/core/decl.hpp>    // GX_HEADER_ONLY
#include <gx/core/stream.hpp>  // Task, Event, Stream

namespace gx::detail::threads {

/// Runs tasks on a thread of its own, in the order of queueing.
/// Errors: a task that throws is reported to `on_error`; later tasks still run. An event of another
///         Worker, or one that there is not, breaks the contract of wait().
/// Cost:   enqueue allocates nothing; it waits while `capacity` tasks are queued.
class Worker {
public:
    struct Options {
        std::function<void()> on_start{};  ///< on the worker, before the first task
        std::function<void()> on_error{};  ///< on the worker, inside the handler: current_exception
        std::function<void()> on_cancel{};  ///< cancel() was called
        std::size_t capacity = 1024;
        int id = 0;  ///< Event::stream of its events
    };

    explicit Worker(Options options);
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    /// Finishes what is queued.
    ~Worker();

    Event enqueue(Task task);
    void wait(Event event);
    /// Waits for everything that has been queued.
    void drain();
    /// Stops the world: what the queued tasks wait for will not come. They still run.
    void cancel();

private:
    void work();

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

#if defined(GX_HEADER_ONLY)
#include <gx/threads/impl/worker.ipp>
#endif
