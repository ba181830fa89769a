// Fiber: a function with a stack of its own, resumed and suspended in one thread.
#pragma once

#include <functional>  // function
#include <memory>      // unique_ptr
#include <string>      // name

#include <gx/core/decl.hpp>  // GX_HEADER_ONLY

namespace gx::sim {

/// Runs `body` on a stack of FiberStacks: 1 MiB (oneDNN needs 256 KiB), committed as it is used.
/// `resume()` is called from outside and returns when the body suspends or ends; `suspend()` from
/// inside. The body must not let an exception out.
class Fiber {
public:
    Fiber(int rank, std::string name, std::function<void()> body);
    Fiber(const Fiber&) = delete;  // its stack points at it
    Fiber& operator=(const Fiber&) = delete;
    ~Fiber();

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] bool finished() const { return finished_; }

    void resume();
    void suspend();

private:
    struct Contexts;  // both sides of the switch, of Boost.Context

    int rank_;
    bool finished_ = false;
    std::string name_;
    std::function<void()> body_;
    std::unique_ptr<Contexts> contexts_;
};

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/des/impl/fiber.ipp>
#endif
