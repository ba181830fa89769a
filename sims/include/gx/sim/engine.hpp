// Engine: virtual time. Pops events in order, and runs fibers that sleep and wait in that time.
#pragma once

#include <cstdint>    // uint64_t
#include <exception>  // exception_ptr
#include <functional> // function
#include <memory>     // unique_ptr
#include <string>     // names, sentences
#include <vector>     // fibers

#include <boost/context/detail/exception.hpp>  // forced_unwind

#include <gx/core/contract.hpp>        // GX_EXPECT
#include <gx/core/error.hpp>           // Error
#include <gx/core/units.hpp>           // Nanoseconds
#include <gx/sim/event_hash.hpp>       // EventHash, EventKind
#include <gx/sim/event_queue.hpp>      // EventQueue
#include <gx/sim/fiber.hpp>            // Fiber

namespace gx::sim {

/// Why a blocked fiber goes on.
enum class Wake : unsigned char {
    signalled,  ///< what it waited for is there
    deadline,   ///< it is not, and the deadline has come
    deadlock,   ///< it is not, and nothing that could bring it is left to happen
    cancelled   ///< a rank failed, and the world is stopping
};

/// A fiber of the engine: one control flow of one rank.
class Strand : public Fiber {
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

/// One thread, one clock, one order of events.
///
///     at(time, rank, task)   posts an event
///     spawn(rank, name, f)   a fiber that starts now
///     run()                  pops events until every fiber has ended; drain() until none is left
///     advance(d)             the calling fiber sleeps
///     block(deadline)        the calling fiber waits for wake(strand), or for the deadline
///
/// Order:  events by (time, rank, order of posting). Equal programs give equal event hashes.
/// Errors: run() throws the first exception that left a fiber, after all fibers have ended: from
///         then on every cancellable wait answers `cancelled`. When nothing is left to happen and
///         fibers wait, each of their waits answers `deadlock`. Nothing hangs.
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
    /// Says that one pending event will do nothing, so that neither drain() nor a deadlock waits
    /// for its time; when it comes all the same, its task says so by dropped().
    void retract() { ++retracted_; }
    void dropped() { --retracted_; }
    Strand& spawn(int rank, std::string name, std::function<void()> body);
    void run();
    void drain() {
        while (pending()) pop();
    }

    /// The fiber that is running; nullptr between fibers.
    [[nodiscard]] Strand* current() const { return current_; }
    void advance(Nanoseconds duration);
    /// Waits for wake(). `cancellable`: fail() ends the wait too.
    Wake block(Nanoseconds deadline, bool cancellable = true);
    /// Waits for work; neither a deadlock nor a failure ends this wait.
    void idle();
    void wake(Strand& strand, Wake reason = Wake::signalled);

    /// Ends all cancellable waits, now and later; `rank` is whom they all tell.
    void cancel(int rank);
    [[nodiscard]] bool cancelled() const { return cancelled_; }
    [[nodiscard]] int missing_rank() const { return missing_rank_; }
    /// A rank threw: cancels. The first failure is the one run() throws.
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
    static void resume_event(void* strand, std::uint64_t) {
        auto& s = *static_cast<Strand*>(strand);
        s.engine_->resume(s);
    }
    static void timer_event(void* strand, std::uint64_t) {
        auto& s = *static_cast<Strand*>(strand);
        s.engine_->timer(s);
    }
    void resume(Strand& strand);
    void suspend(Strand& strand, Strand::State state);
    void timer(Strand& strand);
    void arm(Strand& strand);
    void break_deadlock();

    EventQueue queue_{};
    EventHash hash_;
    Nanoseconds now_{0};
    std::uint64_t events_ = 0;
    std::size_t retracted_ = 0;
    std::vector<std::unique_ptr<Strand>> strands_{};
    std::size_t live_ = 0;
    Strand* current_ = nullptr;
    std::exception_ptr first_error_{};
    bool cancelled_ = false;
    int missing_rank_ = -1;
};

inline Strand& Engine::spawn(int rank, std::string name, std::function<void()> body) {
    auto guarded = [this, rank, body = std::move(body)] {
        try {
            body();
        } catch (const boost::context::detail::forced_unwind&) {
            throw;  // the engine is being destroyed
        } catch (...) {
            fail(rank, std::current_exception());
        }
    };
    strands_.push_back(std::make_unique<Strand>(rank, std::move(name), std::move(guarded)));
    Strand& strand = *strands_.back();
    strand.engine_ = this;
    ++live_;
    at(now_, rank, {resume_event, &strand, 0});
    return strand;
}

inline void Engine::run() {
    while (live_ > 0) {
        if (!pending()) break_deadlock();
        pop();
    }
    if (first_error_) std::rethrow_exception(first_error_);
}

inline void Engine::advance(Nanoseconds duration) {
    GX_EXPECT(current_ != nullptr, "only a fiber can sleep in virtual time");
    GX_EXPECT(duration.count() >= 0, "virtual time does not go backwards");
    if (queue_.would_be_next(now_ + duration, current_->rank())) {  // nothing comes between
        now_ += duration;
        ++events_;
        return;
    }
    Strand& self = *current_;
    at(now_ + duration, self.rank(), {resume_event, &self, 0});
    suspend(self, Strand::State::ready);
}

inline Wake Engine::block(Nanoseconds deadline, bool cancellable) {
    GX_EXPECT(current_ != nullptr, "only a fiber can wait in virtual time");
    if (cancellable && cancelled_) return Wake::cancelled;
    Strand& self = *current_;
    self.cancellable_ = cancellable;
    self.deadline_ = deadline == no_deadline ? no_deadline : now_ + deadline;
    arm(self);
    suspend(self, Strand::State::blocked);
    self.deadline_ = no_deadline;
    return self.reason_;
}

inline void Engine::idle() {
    GX_EXPECT(current_ != nullptr, "only a fiber can wait in virtual time");
    suspend(*current_, Strand::State::idle);
}

inline void Engine::wake(Strand& strand, Wake reason) {
    using enum Strand::State;
    if (strand.state_ != blocked && strand.state_ != idle) return;
    strand.state_ = ready;
    strand.reason_ = reason;
    at(now_, strand.rank(), {resume_event, &strand, 0});
}

inline void Engine::cancel(int rank) {
    if (cancelled_) return;
    cancelled_ = true;
    missing_rank_ = rank;
    note(EventKind::failure, rank, 0, 0);
    for (const auto& strand : strands_)
        if (strand->state_ == Strand::State::blocked && strand->cancellable_)
            wake(*strand, Wake::cancelled);
}

inline void Engine::resume(Strand& strand) {
    strand.state_ = Strand::State::running;
    current_ = &strand;
    strand.resume();
    current_ = nullptr;
    if (strand.finished()) --live_;
}

inline void Engine::suspend(Strand& strand, Strand::State state) {
    strand.state_ = state;
    strand.suspend();
}

// One pending timer a fiber: it fires at the earliest deadline and is posted again for a later one,
// so that a million waits that are met leave no million timers behind.
inline void Engine::arm(Strand& strand) {
    if (strand.deadline_ >= strand.timer_) return;
    strand.timer_ = strand.deadline_;
    at(strand.timer_, strand.rank(), {timer_event, &strand, 0});
}

inline void Engine::timer(Strand& strand) {
    if (now_ < strand.timer_) return;
    if (strand.finished()) return;
    strand.timer_ = no_deadline;
    if (strand.state_ != Strand::State::blocked) return;
    if (now_ >= strand.deadline_) return wake(strand, Wake::deadline);
    arm(strand);
}

inline void Engine::break_deadlock() {
    bool any = false;
    for (const auto& strand : strands_)
        if (!strand->finished() && strand->state_ == Strand::State::blocked) {
            wake(*strand, Wake::deadlock);
            any = true;
        }
    GX_EXPECT(any, "every fiber that is left waits for work, and nobody is left to give it");
}

}  // namespace gx::sim
