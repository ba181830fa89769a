// LibraryThread: the bodies.
#pragma once

#include <exception>  // exception_ptr

#include <gx/mpi/library_thread.hpp>  // the declarations
#include <gx/core/detail/sleep.hpp>   // sleep_until

namespace gx::mpi {

struct LibraryThread::Call {
    FunctionRef<void()> f;
    std::exception_ptr error{};
    std::atomic<bool> done = false;
};

namespace detail::library {
inline constexpr int yields = 64;
}

GX_DECL void LibraryThread::call(FunctionRef<void()> f) {
    Call mine{.f = f};
    {
        const std::lock_guard lock(mutex_);
        calls_.push_back(&mine);
    }
    changed_.notify_all();
    for (int i = 0; i < detail::library::yields && !mine.done; ++i) std::this_thread::yield();
    {
        std::unique_lock lock(mutex_);  // also: work() has let go of `mine`
        gx::detail::sleep_until(changed_, lock, [&] { return mine.done.load(); });
    }
    if (mine.error) std::rethrow_exception(mine.error);
}

GX_DECL void LibraryThread::work() {
    int idle = 0;  // yields since the last call
    std::unique_lock lock(mutex_);
    for (;;) {
        if (calls_.empty() && idle++ < detail::library::yields) {
            lock.unlock();
            std::this_thread::yield();
            lock.lock();
        } else {
            gx::detail::sleep_until(changed_, lock, [&] { return !calls_.empty(); });
        }
        if (calls_.empty()) continue;
        idle = 0;
        Call& next = *calls_.front();
        calls_.pop_front();
        lock.unlock();
        try {
            next.f();
        } catch (...) {
            next.error = std::current_exception();
        }
        lock.lock();
        next.done = true;
        changed_.notify_all();
    }
}

}  // namespace gx::mpi
