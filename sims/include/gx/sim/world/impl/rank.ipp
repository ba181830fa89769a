// Endpoint, Stream: messages of a living rank, and tasks on a fiber of their own.
#pragma once

#include <algorithm>  // max
#include <string>     // names

#include <boost/context/detail/exception.hpp>  // forced_unwind

#include <gx/core/contract.hpp>       // GX_EXPECT
#include <gx/io/duration_text.hpp>    // duration_text
#include <gx/sim/des/engine.hpp>      // Engine
#include <gx/sim/world/matching.hpp>  // MessageMatcher
#include <gx/sim/world/rank.hpp>      // Endpoint, Stream

namespace gx::sim {

// ---- Endpoint ---------------------------------------------------------------------------

GX_DECL MessageBucket& Endpoint::bucket() {
    return engine_.current() == main_ ? main_bucket_ : stream_bucket_;
}

GX_DECL Request Endpoint::send(int to, int channel, std::span<const std::byte> message) {
    if (faults_ && channel < control_channel && alive()) faults_->sending(rank_);
    if (!alive()) return {};
    return matcher_.send(rank_, to, channel, message, bucket());
}
GX_DECL Request Endpoint::receive(int from, int channel, std::span<std::byte> message) {
    if (!alive()) return {};
    return matcher_.receive(rank_, from, channel, message, bucket());
}

GX_DECL Arrival Endpoint::wait_any(std::span<const Request> requests) {
    const Nanoseconds begin = engine_.now();
    const Delivery gone{Delivery::Outcome::cancelled, rank_};
    if (!alive()) return {0, gone};
    count_wait(begin);
    const Arrival arrival = matcher_.wait_any(rank_, requests);
    if (!arrival.delivery.complete() && limits_.failed_waits > 0 &&
        ++failed_waits_ > limits_.failed_waits)
        throw Stuck("rank " + std::to_string(rank_) +
                    " is stuck: " + std::to_string(failed_waits_) + " of its waits failed up to " +
                    duration_text(begin) + ", and it posts messages again instead of returning.");
    if (faults_) {
        const Nanoseconds pause = faults_->end_of_pause(rank_) - engine_.now();
        if (pause.count() > 0) engine_.advance(pause);
        if (!alive()) return {0, gone};
    }
    if (engine_.current() == main_) busy_.exposed_communication += engine_.now() - begin;
    return arrival;
}

GX_DECL void Endpoint::count_wait(Nanoseconds now) {
    const bool too_often = limits_.waits > 0 && ++waits_ > limits_.waits;
    if (!too_often && now <= limits_.time) return;
    throw Stuck("rank " + std::to_string(rank_) + " is stuck: " + std::to_string(waits_) +
                " waits up to " + duration_text(now) +
                ". It waits again and again without progress (livelock).");
}

GX_DECL void Endpoint::spend(std::string_view kernel, Bytes traffic) {
    if (!kernels_ || traffic.count == 0 || !alive()) return;
    const Nanoseconds begin = engine_.now();
    Nanoseconds time =
        kernels_->time(matcher_.wire_scale()(static_cast<std::size_t>(traffic.count)));
    if (faults_) time = faults_->end_of(rank_, time, true) - begin;
    engine_.note(EventKind::charge, rank_,
                 static_cast<std::uint64_t>(Activity::exposed_communication),
                 static_cast<std::uint64_t>(time.count()));
    engine_.advance(time);
    if (engine_.current() == main_) busy_.exposed_communication += time;
    if (trace_ && operation_.part.view().empty())
        trace_->add({rank_, Track::communication, Label(kernel), begin, engine_.now()});
    (void)alive();
}

GX_DECL void Endpoint::working_on(const Operation& operation) {
    if (faults_ && operation.bucket >= 0) faults_->reducing(rank_, operation);
    if (trace_ && !operation_.part.view().empty())
        trace_->add({rank_, Track::communication, operation_.part, part_began_, engine_.now()});
    operation_ = operation;
    bucket() = MessageBucket(operation);
    part_began_ = engine_.now();
}

// Throws RankDied in a dead rank, unless it is unwinding already.
GX_DECL bool Endpoint::alive() const {
    if (!faults_ || !faults_->dead(rank_)) return true;
    if (std::uncaught_exceptions() == 0) throw RankDied{rank_};
    return false;
}

// ---- Stream -----------------------------------------------------------------------------

GX_DECL void Stream::note(Access access, std::span<const std::byte> memory,
                          const Operation& operation) {
    if (races_) races_->note(rank_, access, memory, operation);
    if (trace_ && engine_.current() == fiber_) operation_ = operation;
}
GX_DECL Event Stream::enqueue(Task task) {
    tasks_.push_back(task);
    if (trace_) queued_at_.push_back(engine_.now());
    if (!fiber_)
        fiber_ =
            &engine_.spawn(rank_, "stream of rank " + std::to_string(rank_), [this] { work(); });
    else engine_.wake(*fiber_);
    if (races_) {
        if (actor_ < 0) actor_ = races_->add_stream(rank_, *fiber_);
        races_->queued(rank_, actor_);
    }
    return {++queued_, rank_};
}

GX_DECL void Stream::wait(Event event) {
    GX_EXPECT(engine_.current() != fiber_, "a task cannot wait for the stream that runs it");
    GX_EXPECT(event.sequence == 0 || (event.stream == rank_ && event.sequence <= queued_),
              "this event is not of this stream: wait for what its enqueue() has returned");
    const Nanoseconds begin = engine_.now();
    waiter_ = engine_.current();
    while (done_ < event.sequence) (void)engine_.block(Engine::no_deadline, false);
    waiter_ = nullptr;
    busy_.exposed_communication += engine_.now() - begin;
    if (races_ && actor_ >= 0) races_->waited(rank_, actor_, event);
    if (error_ && std::uncaught_exceptions() == 0) std::rethrow_exception(error_);
}

GX_DECL void Stream::close() {
    closed_ = true;
    if (!fiber_) return;
    engine_.wake(*fiber_);
    waiter_ = engine_.current();
    while (!fiber_->finished() && !ended_) (void)engine_.block(Engine::no_deadline, false);
}

GX_DECL void Stream::work() {
    for (;;) {
        while (!tasks_.empty()) {
            const Task task = tasks_.front();
            tasks_.pop_front();
            if (races_) races_->begun(actor_);
            if (!error_) perform(task);
            if (races_) races_->ended(actor_);
            ++done_;
            if (waiter_) engine_.wake(*waiter_);
        }
        if (closed_) break;
        engine_.idle();
    }
    ended_ = true;
    if (waiter_) engine_.wake(*waiter_);
}

GX_DECL void Stream::perform(Task task) {
    const Nanoseconds begin = engine_.now();
    try {
        task.run(task.context, task.argument);
    } catch (const boost::context::detail::forced_unwind&) {
        throw;
    } catch (const RankDied&) {
        error_ = std::current_exception();
    } catch (...) {
        error_ = std::current_exception();
        engine_.fail(rank_, error_);
    }
    busy_.communication += engine_.now() - begin;
    if (trace_) trace(begin);
}

// A task from its queueing to its end, under Horovod's names.
GX_DECL void Stream::trace(Nanoseconds begin) {
    Span span{rank_,
              Track::communication,
              "ALLREDUCE",
              begin,
              engine_.now(),
              std::max(std::int64_t{0}, operation_.step),
              operation_.bucket};
    trace_->add(span);
    span.track = Track::queue;
    span.name = "QUEUE";
    span.begin = queued_at_.front();
    span.end = begin;
    if (span.begin < span.end) trace_->add(span);
    queued_at_.pop_front();
    operation_ = {};
}

}  // namespace gx::sim
