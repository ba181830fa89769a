// Fiber: the switch, exceptions of each side, and what sanitizers need to know.
#pragma once

#include <array>    // two words of exception state
#include <cstddef>  // size_t
#include <cstring>  // memcpy
#include <utility>  // move

#include <cxxabi.h>  // __cxa_get_globals

#include <boost/context/fiber.hpp>  // the switch

#include <gx/core/contract.hpp>           // GX_EXPECT
#include <gx/core/detail/sanitizers.hpp>  // GX_ADDRESS_SANITIZER
#include <gx/sim/des/fiber_stacks.hpp>    // FiberStacks
#include <gx/sim/des/fiber.hpp>           // Fiber

#if GX_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>         // forgets what an earlier stack left there
#include <sanitizer/common_interface_defs.h>  // which stack is in use
#endif
#if GX_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>  // which fiber's calls these are
#endif

namespace gx::sim {

struct Fiber::Contexts {
    explicit Contexts(Fiber& fiber) : self(fiber) {
        FiberStacks allocator;
        const auto stack = allocator.allocate();
        inside_bottom = static_cast<const char*>(stack.sp) - stack.size;
        inside_size = stack.size;
#if GX_ADDRESS_SANITIZER
        __asan_unpoison_memory_region(inside_bottom, inside_size);
#endif
        call_inside();  // it runs up to where `body` begins
        inside = boost::context::fiber(
            std::allocator_arg, boost::context::preallocated(stack.sp, stack.size, stack),
            allocator, [this](boost::context::fiber&& out) { return run(std::move(out)); });
        call_outside();
    }
    Contexts(const Contexts&) = delete;
    Contexts& operator=(const Contexts&) = delete;
    ~Contexts() {
        call_inside();
        inside = {};  // its stack unwinds
        call_outside();
#if GX_THREAD_SANITIZER
        __tsan_destroy_fiber(inside_calls);
#endif
    }

    void resume() {
        void* kept = nullptr;
        const Exceptions mine = exceptions();
        leave(&kept, inside_bottom, inside_size);
        call_inside();
        inside = std::move(inside).resume();
        arrive(kept, nullptr, nullptr);
        restore(mine);
    }
    void suspend() {
        void* kept = nullptr;
        const Exceptions mine = exceptions();
        leave(&kept, outside_bottom, outside_size);
        call_outside();
        outside = std::move(outside).resume();
        arrive(kept, &outside_bottom, &outside_size);
        restore(mine);
    }
    boost::context::fiber run(boost::context::fiber&& out) {
        outside = std::move(out);
        arrive(nullptr, &outside_bottom, &outside_size);
        restore({});
        self.body_();
        self.finished_ = true;
#if GX_THREAD_SANITIZER
        suspend();  // for good: to return would leave calls that the outside has not made
#endif
        leave(nullptr, outside_bottom, outside_size);  // this stack is not used again
        return std::move(outside);
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
#if GX_ADDRESS_SANITIZER
        __sanitizer_start_switch_fiber(kept, bottom, size);
#endif
    }
    static void arrive([[maybe_unused]] void* kept, [[maybe_unused]] const void** bottom,
                       [[maybe_unused]] std::size_t* size) {
#if GX_ADDRESS_SANITIZER
        __sanitizer_finish_switch_fiber(kept, bottom, size);
#endif
    }

    // The thread sanitizer keeps a call stack for each fiber: announces the fiber that runs next.
    void call_inside() {
#if GX_THREAD_SANITIZER
        outside_calls = __tsan_get_current_fiber();
        __tsan_switch_to_fiber(inside_calls, 0);
#endif
    }
    void call_outside() {
#if GX_THREAD_SANITIZER
        __tsan_switch_to_fiber(outside_calls, 0);
#endif
    }

    Fiber& self;
    boost::context::fiber inside{}, outside{};
    const void* inside_bottom = nullptr;
    const void* outside_bottom = nullptr;
    std::size_t inside_size = 0, outside_size = 0;
#if GX_THREAD_SANITIZER
    void* inside_calls = __tsan_create_fiber(0);
    void* outside_calls = nullptr;
#endif
};

GX_DECL Fiber::Fiber(int rank, std::string name, std::function<void()> body)
    : rank_(rank),
      name_(std::move(name)),
      body_(std::move(body)),
      contexts_(std::make_unique<Contexts>(*this)) {}

GX_DECL Fiber::~Fiber() = default;  // the stack unwinds before the body goes, which it uses

GX_DECL void Fiber::resume() {
    GX_EXPECT(!finished_, "a fiber that has ended cannot go on");
    contexts_->resume();
}
GX_DECL void Fiber::suspend() { contexts_->suspend(); }

}  // namespace gx::sim
