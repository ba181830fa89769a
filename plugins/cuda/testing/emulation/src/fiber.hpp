// Fiber: a stack of its own, which AddressSanitizer and ThreadSanitizer know as such.
#pragma once

#include <cstddef>     // size_t
#include <exception>   // exception_ptr
#include <functional>  // function
#include <memory>      // allocator_arg
#include <utility>     // move, exchange

#include <boost/context/fiber.hpp>                      // the switch
#include <boost/context/protected_fixedsize_stack.hpp>  // a stack with a guard page

#include <gx/cuda/emulation/grid.hpp>  // under_thread_sanitizer

// Weak: a program without the sanitizer has none of them. This file is compiled without sanitizers,
// so that they check the kernels' memory and not the scheduler's.
extern "C" {
[[gnu::weak]] void* __tsan_create_fiber(unsigned);
[[gnu::weak]] void __tsan_destroy_fiber(void*);
[[gnu::weak]] void* __tsan_get_current_fiber();
[[gnu::weak]] void __tsan_switch_to_fiber(void*, unsigned);
[[gnu::weak]] void __tsan_acquire(void*);
[[gnu::weak]] void __tsan_release(void*);
[[gnu::weak]] void __sanitizer_start_switch_fiber(void**, const void*, std::size_t);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void*, const void**, std::size_t*);
}

namespace gx::cuda::emulation {

/// What came before a release happens before what follows an acquire of the same address.
inline void release(void* token) {
    if (__tsan_release != nullptr) __tsan_release(token);
}
inline void acquire(void* token) {
    if (__tsan_acquire != nullptr) __tsan_acquire(token);
}

/// Runs one body after another on one stack. Switches order nothing for ThreadSanitizer.
class Fiber {
public:
    explicit Fiber(std::size_t stack_bytes) {
        boost::context::protected_fixedsize_stack allocator(stack_bytes);
        const auto stack = allocator.allocate();
        bottom_ = static_cast<const char*>(stack.sp) - stack.size;
        size_ = stack.size;
        if (under_thread_sanitizer()) identity_ = __tsan_create_fiber(0);
        inside_ = boost::context::fiber(
            std::allocator_arg, boost::context::preallocated(stack.sp, stack.size, stack),
            allocator, [this](boost::context::fiber&& caller) { return loop(std::move(caller)); });
    }
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;
    ~Fiber() {
        abandoned_ = true;
        if (!body_) body_ = [] {};
        enter();
        if (identity_ != nullptr) __tsan_destroy_fiber(identity_);
    }

    void begin(std::function<void()> body) { body_ = std::move(body); }
    /// Runs until the body suspends or ends; throws what the body threw.
    void resume() {
        enter();
        if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    }
    /// Returns to resume()'s caller. A fiber that is destroyed meanwhile unwinds from here.
    void suspend() {
        leave();
        if (abandoned_) throw Abandoned{};
    }

private:
    struct Abandoned {};

    boost::context::fiber loop(boost::context::fiber&& caller) {
        outside_ = std::move(caller);
        finish_switch(nullptr, &outside_bottom_, &outside_size_);
        while (!abandoned_) {
            try {
                body_();
            } catch (const Abandoned&) {
                break;
            } catch (...) {
                error_ = std::current_exception();
            }
            body_ = nullptr;
            leave();
        }
        start_switch(nullptr, outside_bottom_, outside_size_);  // this stack is not used again
        if (identity_ != nullptr) __tsan_switch_to_fiber(caller_, 1);
        return std::move(outside_);
    }
    void leave() {
        void* kept = nullptr;
        start_switch(&kept, outside_bottom_, outside_size_);
        if (identity_ != nullptr) __tsan_switch_to_fiber(caller_, 1);  // 1: orders nothing
        outside_ = std::move(outside_).resume();
        finish_switch(kept, &outside_bottom_, &outside_size_);
    }
    void enter() {
        void* kept = nullptr;
        start_switch(&kept, bottom_, size_);
        if (identity_ != nullptr) {
            caller_ = __tsan_get_current_fiber();
            __tsan_switch_to_fiber(identity_, 1);
        }
        inside_ = std::move(inside_).resume();
        finish_switch(kept, nullptr, nullptr);
    }
    static void start_switch(void** kept, const void* bottom, std::size_t size) {
        if (__sanitizer_start_switch_fiber != nullptr && !under_thread_sanitizer())
            __sanitizer_start_switch_fiber(kept, bottom, size);
    }
    static void finish_switch(void* kept, const void** bottom, std::size_t* size) {
        if (__sanitizer_finish_switch_fiber != nullptr && !under_thread_sanitizer())
            __sanitizer_finish_switch_fiber(kept, bottom, size);
    }

    std::function<void()> body_{};
    std::exception_ptr error_{};
    boost::context::fiber inside_{}, outside_{};
    const void* bottom_ = nullptr;
    const void* outside_bottom_ = nullptr;
    std::size_t size_ = 0, outside_size_ = 0;
    bool abandoned_ = false;
    void* identity_ = nullptr;
    void* caller_ = nullptr;
};

}  // namespace gx::cuda::emulation
