// LibraryThread: the thread that initialises MPI, and that calls it for others at level FUNNELED.
#pragma once

#include <atomic>              // one that is funneled
#include <condition_variable>  // waits
#include <deque>               // calls
#include <mutex>               // calls
#include <thread>              // the thread

#include <gx/core/decl.hpp>          // GX_DECL
#include <gx/core/function_ref.hpp>  // FunctionRef

namespace gx::mpi {

/// A thread of the process that MPI may take for its main thread. Made once, by `new`.
/// Threads: call() from any; calls are made one at a time, in the order in which they came.
/// Cost:    a call is handed over and back: 64 yields, then sleeps, on either side.
class LibraryThread {
public:
    LibraryThread() : thread_([this] { work(); }) {}
    LibraryThread(const LibraryThread&) = delete;
    LibraryThread& operator=(const LibraryThread&) = delete;
    ~LibraryThread() = delete;  // it ends with the process

    /// Runs `f` there, and returns, or throws, as it does.
    GX_DECL void call(FunctionRef<void()> f);
    [[nodiscard]] bool is_this() const { return std::this_thread::get_id() == thread_.get_id(); }

private:
    struct Call;
    GX_DECL void work();

    std::mutex mutex_{};
    std::condition_variable changed_{};
    std::deque<Call*> calls_{};
    std::thread thread_;
};

namespace detail::library {
/// That all calls of MPI are handed to: at level FUNNELED, where gx has initialised MPI.
inline std::atomic<LibraryThread*> funneled = nullptr;
/// MPI_Finalize is not called: it would wait for ranks that are lost, or have not come.
inline std::atomic<bool> left_open = false;
/// One thread at a time calls MPI: level SERIALIZED, of all worlds of the process.
inline std::atomic<bool> serialized = false;
inline std::mutex one_at_a_time;
}  // namespace detail::library

/// Calls f(), which calls MPI and not in_library(), where and when the thread level lets it: here,
/// at level SERIALIZED under the process's lock, or on the thread that initialised MPI.
template <class F>
void in_library(F f) {
    namespace d = detail::library;
    LibraryThread* const thread = d::funneled.load(std::memory_order_acquire);
    if (thread != nullptr && !thread->is_this()) {
        thread->call(f);
        return;
    }
    const auto lock = d::serialized.load(std::memory_order_relaxed)
                          ? std::unique_lock(d::one_at_a_time)
                          : std::unique_lock<std::mutex>();
    f();
}

}  // namespace gx::mpi

#if defined(GX_HEADER_ONLY)
#include <gx/mpi/impl/library_thread.ipp>
#endif
