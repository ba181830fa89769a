// Engine: fibers, waits, deadlines and deadlocks.
#pragma once

#include <utility>  // move

#include <boost/context/detail/exception.hpp>  // forced_unwind

#include <gx/core/contract.hpp>   // GX_EXPECT
#include <gx/sim/des/engine.hpp>  // Engine

namespace gx::sim {

GX_DECL ScheduledFiber& Engine::spawn(int rank, std::string name, std::function<void()> body) {
    auto guarded = [this, rank, body = std::move(body)] {
        try {
            body();
        } catch (const boost::context::detail::forced_unwind&) {
            throw;  // the engine is being destroyed
        } catch (...) {
            fail(rank, std::current_exception());
        }
    };
    fibers_.push_back(std::make_unique<ScheduledFiber>(rank, std::move(name), std::move(guarded)));
    ScheduledFiber& fiber = *fibers_.back();
    fiber.engine_ = this;
    ++live_;
    at(now_, rank, {resume_event, &fiber, 0});
    return fiber;
}

GX_DECL void Engine::run() {
    while (live_ > 0) {
        if (!pending()) break_deadlock();
        pop();
    }
    if (first_error_) std::rethrow_exception(first_error_);
}

GX_DECL void Engine::advance(Nanoseconds duration) {
    GX_EXPECT(current_ != nullptr, "only a fiber can sleep in virtual time");
    GX_EXPECT(duration.count() >= 0, "virtual time does not go backwards");
    if (queue_.would_be_next(now_ + duration, current_->rank())) {  // nothing comes between
        now_ += duration;
        ++events_;
        return;
    }
    ScheduledFiber& self = *current_;
    at(now_ + duration, self.rank(), {resume_event, &self, 0});
    suspend(self, ScheduledFiber::State::ready);
}

GX_DECL Wake Engine::block(Nanoseconds deadline, bool cancellable) {
    GX_EXPECT(current_ != nullptr, "only a fiber can wait in virtual time");
    if (cancellable && cancelled_) return Wake::cancelled;
    ScheduledFiber& self = *current_;
    self.cancellable_ = cancellable;
    self.deadline_ = deadline >= no_deadline - now_ ? no_deadline : now_ + deadline;
    arm(self);
    suspend(self, ScheduledFiber::State::blocked);
    self.deadline_ = no_deadline;
    return self.reason_;
}

GX_DECL void Engine::idle() {
    GX_EXPECT(current_ != nullptr, "only a fiber can wait in virtual time");
    suspend(*current_, ScheduledFiber::State::idle);
}

GX_DECL void Engine::wake(ScheduledFiber& fiber, Wake reason) {
    using enum ScheduledFiber::State;
    if (fiber.state_ != blocked && fiber.state_ != idle) return;
    fiber.state_ = ready;
    fiber.reason_ = reason;
    at(now_, fiber.rank(), {resume_event, &fiber, 0});
}

GX_DECL void Engine::cancel(int rank) {
    if (cancelled_) return;
    cancelled_ = true;
    missing_rank_ = rank;
    note(EventKind::failure, rank, 0, 0);
    for (const auto& fiber : fibers_)
        if (fiber->state_ == ScheduledFiber::State::blocked && fiber->cancellable_)
            wake(*fiber, Wake::cancelled);
}

GX_DECL void Engine::resume(ScheduledFiber& fiber) {
    fiber.state_ = ScheduledFiber::State::running;
    current_ = &fiber;
    fiber.resume();
    current_ = nullptr;
    if (fiber.finished()) --live_;
}

GX_DECL void Engine::suspend(ScheduledFiber& fiber, ScheduledFiber::State state) {
    fiber.state_ = state;
    fiber.suspend();
}

// One pending timer a fiber: it fires at the earliest deadline and is posted again for a later one,
// so that a million waits that are met leave no million timers behind.
GX_DECL void Engine::arm(ScheduledFiber& fiber) {
    if (fiber.deadline_ >= fiber.timer_) return;
    fiber.timer_ = fiber.deadline_;
    at(fiber.timer_, fiber.rank(), {timer_event, &fiber, 0});
}

GX_DECL void Engine::timer(ScheduledFiber& fiber) {
    if (now_ < fiber.timer_) return;
    if (fiber.finished()) return;
    fiber.timer_ = no_deadline;
    if (fiber.state_ != ScheduledFiber::State::blocked) return;
    if (now_ >= fiber.deadline_) return wake(fiber, Wake::deadline);
    arm(fiber);
}

GX_DECL void Engine::break_deadlock() {
    bool any = false;
    for (const auto& fiber : fibers_)
        if (!fiber->finished() && fiber->state_ == ScheduledFiber::State::blocked) {
            wake(*fiber, Wake::deadlock);
            any = true;
        }
    GX_EXPECT(any, "every fiber that is left waits for work, and no fiber is left to give it");
}

}  // namespace gx::sim
