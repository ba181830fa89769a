// Engine: fibers, waits, deadlines and deadlocks.
#pragma once

#include <utility>  // move

#include <boost/context/detail/exception.hpp>  // forced_unwind

#include <gx/core/contract.hpp>   // GX_EXPECT
#include <gx/sim/des/engine.hpp>  // Engine

namespace gx::sim {

GX_DECL Strand& Engine::spawn(int rank, std::string name, std::function<void()> body) {
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
    Strand& self = *current_;
    at(now_ + duration, self.rank(), {resume_event, &self, 0});
    suspend(self, Strand::State::ready);
}

GX_DECL Wake Engine::block(Nanoseconds deadline, bool cancellable) {
    GX_EXPECT(current_ != nullptr, "only a fiber can wait in virtual time");
    if (cancellable && cancelled_) return Wake::cancelled;
    Strand& self = *current_;
    self.cancellable_ = cancellable;
    self.deadline_ = deadline >= no_deadline - now_ ? no_deadline : now_ + deadline;
    arm(self);
    suspend(self, Strand::State::blocked);
    self.deadline_ = no_deadline;
    return self.reason_;
}

GX_DECL void Engine::idle() {
    GX_EXPECT(current_ != nullptr, "only a fiber can wait in virtual time");
    suspend(*current_, Strand::State::idle);
}

GX_DECL void Engine::wake(Strand& strand, Wake reason) {
    using enum Strand::State;
    if (strand.state_ != blocked && strand.state_ != idle) return;
    strand.state_ = ready;
    strand.reason_ = reason;
    at(now_, strand.rank(), {resume_event, &strand, 0});
}

GX_DECL void Engine::cancel(int rank) {
    if (cancelled_) return;
    cancelled_ = true;
    missing_rank_ = rank;
    note(EventKind::failure, rank, 0, 0);
    for (const auto& strand : strands_)
        if (strand->state_ == Strand::State::blocked && strand->cancellable_)
            wake(*strand, Wake::cancelled);
}

GX_DECL void Engine::resume(Strand& strand) {
    strand.state_ = Strand::State::running;
    current_ = &strand;
    strand.resume();
    current_ = nullptr;
    if (strand.finished()) --live_;
}

GX_DECL void Engine::suspend(Strand& strand, Strand::State state) {
    strand.state_ = state;
    strand.suspend();
}

// One pending timer a fiber: it fires at the earliest deadline and is posted again for a later one,
// so that a million waits that are met leave no million timers behind.
GX_DECL void Engine::arm(Strand& strand) {
    if (strand.deadline_ >= strand.timer_) return;
    strand.timer_ = strand.deadline_;
    at(strand.timer_, strand.rank(), {timer_event, &strand, 0});
}

GX_DECL void Engine::timer(Strand& strand) {
    if (now_ < strand.timer_) return;
    if (strand.finished()) return;
    strand.timer_ = no_deadline;
    if (strand.state_ != Strand::State::blocked) return;
    if (now_ >= strand.deadline_) return wake(strand, Wake::deadline);
    arm(strand);
}

GX_DECL void Engine::break_deadlock() {
    bool any = false;
    for (const auto& strand : strands_)
        if (!strand->finished() && strand->state_ == Strand::State::blocked) {
            wake(*strand, Wake::deadlock);
            any = true;
        }
    GX_EXPECT(any, "every fiber that is left waits for work, and nobody is left to give it");
}

}  // namespace gx::sim
