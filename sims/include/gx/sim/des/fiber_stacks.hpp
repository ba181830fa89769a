// FiberStacks: a pool of stacks with guard pages, reused from one simulation to the next.
#pragma once

#include <cstddef>  // size_t
#include <mutex>    // the pool is of the process

#include <boost/context/stack_context.hpp>  // stack_context

#include <gx/core/decl.hpp>            // GX_DECL
#include <gx/core/trivial_vector.hpp>  // flat lists

namespace gx::sim {

/// Pool of fiber stacks, shared by the process; models Boost.Context's StackAllocator.
///
/// A stack is address space that is committed page by page as it is used. A released stack keeps
/// its uppermost `kept_bytes` committed, so that the next fiber on it starts without page faults.
///
/// Errors: gx::Error where the system grants no further mapping; it names the limit to raise.
/// Cost:   a new stack is two system calls, a reused one none, a released one a single one.
class FiberStacks {
public:
    static constexpr std::size_t stack_bytes = std::size_t{1} << 20;
    static constexpr std::size_t kept_bytes = std::size_t{1} << 14;
    static constexpr std::size_t most_idle = 4096;  ///< further ones are unmapped when released

    boost::context::stack_context allocate();
    void deallocate(boost::context::stack_context& stack) noexcept;

    /// Stacks that are mapped and unused now.
    [[nodiscard]] static std::size_t idle();

private:
    struct Pool {
        std::mutex mutex{};
        TrivialVector<void*> tops{};
    };
    static Pool& pool();
    static std::size_t page_bytes();
};

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/des/impl/fiber_stacks.ipp>
#endif
