// Fiber: a function with a stack of its own, resumed and suspended in one thread.
#pragma once

#include <array>       // two words of exception state
#include <cstddef>     // size_t
#include <cstring>     // memcpy
#include <functional>  // function
#include <string>      // name
#include <utility>     // move

#include <cxxabi.h>  // __cxa_get_globals

#include <boost/context/fiber.hpp>                      // the switch
#include <boost/context/protected_fixedsize_stack.hpp>  // a stack with a guard page

#include <gx/core/contract.hpp>  // GX_EXPECT

#if defined(__SANITIZE_ADDRESS__)
#define GX_SIM_ADDRESS_SANITIZER 1
#elif defined(__SANITIZE_THREAD__)
#define GX_SIM_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GX_SIM_ADDRESS_SANITIZER 1
#elif __has_feature(thread_sanitizer)
#define GX_SIM_THREAD_SANITIZER 1
#endif
#endif
#ifdef GX_SIM_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>         // forgets what an earlier stack left there
#include <sanitizer/common_interface_defs.h>  // tells the sanitizer which stack is in use
#endif
#ifdef GX_SIM_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>  // tells the sanitizer whose calls these are
#endif

namespace gx::sim {

/// Runs `body` on a stack of 1 MiB (oneDNN needs 256 KiB), committed page by page as it is used.
/// `resume()` is called from outside and returns when the body suspends or ends; `suspend()` from
/// inside. The body must not let an exception out.
class Fiber {
public:
    static constexpr std::size_t stack_bytes = std::size_t{1} << 20;

    Fiber(int rank, std::string name, std::function<void()> body)
        : rank_(rank), name_(std::move(name)), body_(std::move(body)) {
        boost::context::protected_fixedsize_stack allocator(stack_bytes);
        const auto stack = allocator.allocate();
        inside_bottom_ = static_cast<const char*>(stack.sp) - stack.size;
        inside_size_ = stack.size;
#ifdef GX_SIM_ADDRESS_SANITIZER
        __asan_unpoison_memory_region(inside_bottom_, inside_size_);
#endif
        call_inside();  // it runs up to where `body` begins
        inside_ = boost::context::fiber(
            std::allocator_arg, boost::context::preallocated(stack.sp, stack.size, stack),
            allocator, [this](boost::context::fiber&& outside) { return run(std::move(outside)); });
        call_outside();
    }
    Fiber(const Fiber&) = delete;  // its stack points at it
    Fiber& operator=(const Fiber&) = delete;
    ~Fiber() {
        call_inside();
        inside_ = {};  // its stack unwinds
        call_outside();
#ifdef GX_SIM_THREAD_SANITIZER
        __tsan_destroy_fiber(inside_calls_);
#endif
    }

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] bool finished() const { return finished_; }

    void resume() {
        GX_EXPECT(!finished_, "a fiber that has ended cannot go on");
        void* kept = nullptr;
        const Exceptions mine = exceptions();
        leave(&kept, inside_bottom_, inside_size_);
        call_inside();
        inside_ = std::move(inside_).resume();
        arrive(kept, nullptr, nullptr);
        restore(mine);
    }
    void suspend() {
        void* kept = nullptr;
        const Exceptions mine = exceptions();
        leave(&kept, outside_bottom_, outside_size_);
        call_outside();
        outside_ = std::move(outside_).resume();
        arrive(kept, &outside_bottom_, &outside_size_);
        restore(mine);
    }

private:
    boost::context::fiber run(boost::context::fiber&& outside) {
        outside_ = std::move(outside);
        arrive(nullptr, &outside_bottom_, &outside_size_);
        restore({});
        body_();
        finished_ = true;
#ifdef GX_SIM_THREAD_SANITIZER
        suspend();  // for good: to return would leave calls that the outside has not made
#endif
        leave(nullptr, outside_bottom_, outside_size_);  // this stack is not used again
        return std::move(outside_);
    }
    // The caught and uncaught exceptions of the thread, two words in the Itanium C++ ABI: each
    // fiber has its own, so that it may wait in a handler or in a destructor during unwinding.
    using Exceptions = std::array<void*, 2>;
    static Exceptions exceptions() {
        Exceptions words{};
        std::memcpy(words.data(), abi::__cxa_get_globals(), sizeof words);
        return words;
    }
    static void restore(const Exceptions& words) {
        std::memcpy(static_cast<void*>(abi::__cxa_get_globals()), words.data(), sizeof words);
    }
    static void leave([[maybe_unused]] void** kept, [[maybe_unused]] const void* bottom,
                      [[maybe_unused]] std::size_t size) {
#ifdef GX_SIM_ADDRESS_SANITIZER
        __sanitizer_start_switch_fiber(kept, bottom, size);
#endif
    }
    static void arrive([[maybe_unused]] void* kept, [[maybe_unused]] const void** bottom,
                       [[maybe_unused]] std::size_t* size) {
#ifdef GX_SIM_ADDRESS_SANITIZER
        __sanitizer_finish_switch_fiber(kept, bottom, size);
#endif
    }

    // The thread sanitizer keeps the calls of each fiber, and is told whose the next ones are.
    void call_inside() {
#ifdef GX_SIM_THREAD_SANITIZER
        outside_calls_ = __tsan_get_current_fiber();
        __tsan_switch_to_fiber(inside_calls_, 0);
#endif
    }
    void call_outside() {
#ifdef GX_SIM_THREAD_SANITIZER
        __tsan_switch_to_fiber(outside_calls_, 0);
#endif
    }

    int rank_;
    std::string name_;
    std::function<void()> body_;
    boost::context::fiber inside_{}, outside_{};
    const void* inside_bottom_ = nullptr;
    const void* outside_bottom_ = nullptr;
    std::size_t inside_size_ = 0, outside_size_ = 0;
    bool finished_ = false;
#ifdef GX_SIM_THREAD_SANITIZER
    void* inside_calls_ = __tsan_create_fiber(0);
    void* outside_calls_ = nullptr;
#endif
};

}  // namespace gx::sim
