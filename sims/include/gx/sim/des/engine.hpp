// Engine: discrete-event loop in virtual time, with fibers that sleep and wait in it.
#pragma once

#include <cstdint>     // uint64_t
#include <exception>   // exception_ptr
#include <functional>  // function
#include <memory>      // unique_ptr
#include <string>      // names, sentences
#include <utility>     // move
#include <vector>      // fibers

#include <gx/core/contract.hpp>        // GX_EXPECT
#include <gx/core/decl.hpp>            // GX_HEADER_ONLY
#include <gx/core/units.hpp>           // Nanoseconds
#include <gx/sim/des/event_hash.hpp>   // EventHash, EventKind
#include <gx/sim/des/event_queue.hpp>  // EventQueue
#include <gx/sim/des/fiber.hpp>        // Fiber

namespace gx::sim {

/// Reason why a blocked fiber continues.
enum class Wake : unsigned char {
    signalled,  ///< wake() was called
    deadline,   ///< the deadline has been reached
    deadlock,   ///< no event is left that could call wake()
    cancelled   ///< a rank failed, and the run is being stopped
};

/// A fiber with the engine's scheduler state: one control flow of one rank.
class ScheduledFiber : public Fiber {
public:
    using Fiber::Fiber;

private:
    friend class Engine;
    enum class State : unsigned char { ready, running, blocked, idle };
    State state_ = State::ready;
    bool cancellable_ = false;
    Wake reason_ = Wake::signalled;
    Nanoseconds deadline_ = Nanoseconds::max();  ///< of the present wait
    Nanoseconds timer_ = Nanoseconds::max();     ///< when its pending timer fires
    class Engine* engine_ = nullptr;
};

/// Single-threaded discrete-event scheduler with a total order of events.
///
///     at(time, rank, task)   posts an event
///     spawn(rank, name, f)   a fiber that starts now
///     run()                  pops events until every fiber has ended; drain() until none is left
///     advance(d)             the calling fiber sleeps
///     block(deadline)        the calling fiber waits for wake(fiber), or for the deadline
///
/// Order:  events by (time, rank, order of posting). Equal programs give equal event hashes.
/// Errors: run() throws the first exception that left a fiber, after all fibers have ended: from
///         then on every cancellable wait returns `cancelled`. When fibers wait and no event is
///         left, each of their waits returns `deadlock`. Nothing hangs.
/// Cost:   no allocation per event; at most one timer is pending for each fiber.
class Engine {
public:
    static constexpr Nanoseconds no_deadline = Nanoseconds::max();

    explicit Engine(std::uint64_t seed = 0) : hash_(seed) {}
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    [[nodiscard]] Nanoseconds now() const { return now_; }
    [[nodiscard]] std::uint64_t event_hash() const { return hash_.value(); }
    [[nodiscard]] std::uint64_t events() const { return events_; }
    void note(EventKind kind, int rank, std::uint64_t a, std::uint64_t b) {
        hash_.add(now_, kind, rank, a, b);
    }

    void at(Nanoseconds time, int rank, Task task) {
        GX_EXPECT(time >= now_, "an event cannot be posted in the past");
        queue_.push(time, rank, task);
    }
    /// Marks one pending event as void, so that neither drain() nor a deadlock waits for its time.
    /// If it is popped all the same, its task calls dropped().
    void retract() { ++retracted_; }
    void dropped() { --retracted_; }
    ScheduledFiber& spawn(int rank, std::string name, std::function<void()> body);
    void run();
    void drain() {
        while (pending()) pop();
    }

    /// The running fiber; nullptr between fibers.
    [[nodiscard]] ScheduledFiber* current() const { return current_; }
    void advance(Nanoseconds duration);
    /// Waits for wake(). `cancellable`: fail() ends the wait too.
    Wake block(Nanoseconds deadline, bool cancellable = true);
    /// Waits for work; neither a deadlock nor a failure ends this wait.
    void idle();
    void wake(ScheduledFiber& fiber, Wake reason = Wake::signalled);

    /// Ends all cancellable waits, now and later; missing_rank() is `rank` from then on.
    void cancel(int rank);
    [[nodiscard]] bool cancelled() const { return cancelled_; }
    [[nodiscard]] int missing_rank() const { return missing_rank_; }
    /// Records the exception of a rank and cancels. run() throws the first one recorded.
    void fail(int rank, std::exception_ptr error) {
        if (!first_error_) first_error_ = std::move(error);
        cancel(rank);
    }

private:
    [[nodiscard]] bool pending() const { return queue_.size() > retracted_; }
    void pop() {
        const EventQueue::Entry event = queue_.pop();
        now_ = event.time;
        ++events_;
        event.task.run(event.task.context, event.task.argument);
    }
    static void resume_event(void* fiber, std::uint64_t) {
        auto& s = *static_cast<ScheduledFiber*>(fiber);
        s.engine_->resume(s);
    }
    static void timer_event(void* fiber, std::uint64_t) {
        auto& s = *static_cast<ScheduledFiber*>(fiber);
        s.engine_->timer(s);
    }
    void resume(ScheduledFiber& fiber);
    void suspend(ScheduledFiber& fiber, ScheduledFiber::State state);
    void timer(ScheduledFiber& fiber);
    void arm(ScheduledFiber& fiber);
    void break_deadlock();

    EventQueue queue_{};
    EventHash hash_;
    Nanoseconds now_{0};
    std::uint64_t events_ = 0;
    std::size_t retracted_ = 0;
    std::vector<std::unique_ptr<ScheduledFiber>> fibers_{};
    std::size_t live_ = 0;
    ScheduledFiber* current_ = nullptr;
    std::exception_ptr first_error_{};
    bool cancelled_ = false;
    int missing_rank_ = -1;
};

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/des/impl/engine.ipp>
#endif
