// Endpoint, Stream and RankBase: what a simulated rank's function talks to.
#pragma once

#include <algorithm>  // max
#include <deque>   // queued tasks
#include <exception>  // uncaught_exceptions
#include <memory>  // unique_ptr
#include <string>  // names

#include <gx/core/contract.hpp>     // GX_EXPECT
#include <gx/core/stream.hpp>       // Task, Event
#include <gx/core/transport.hpp>    // Placement, Request, Arrival
#include <gx/sim/engine.hpp>        // Engine
#include <gx/sim/fault_hooks.hpp>   // FaultHooks, RankDied, forever
#include <gx/sim/post_office.hpp>   // PostOffice
#include <gx/sim/race_hooks.hpp>    // RaceHooks
#include <gx/sim/trace.hpp>         // Busy, TraceSink

namespace gx::sim {

/// What a run may use up before it counts as stuck; for those who look for hangs.
struct Limits {
    Nanoseconds time = forever;  ///< virtual
    std::uint64_t waits = 0;     ///< of one rank; 0: no limit
};

/// A rank that goes on and on: past the run's limits.
class Stuck : public Error {
public:
    using Error::Error;
};

/// One rank's end of the simulated network; a Transport.
/// Channels below `control_channel` carry gradients and are stretched to the timed model's size.
class Endpoint {
public:
    Endpoint(int rank, Placement placement, Engine& engine, PostOffice& office, Busy& busy,
             const Strand*& main)
        : rank_(rank), placement_(placement), engine_(engine), office_(office), busy_(busy),
          main_(main) {}

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int ranks() const { return placement_.ranks(); }
    [[nodiscard]] Placement placement() const { return placement_; }
    Request send(int to, int channel, std::span<const std::byte> message) {
        if (faults_ && channel < control_channel && alive()) faults_->sending(rank_);
        if (!alive()) return {};
        return office_.send(rank_, to, channel, message);
    }
    Request receive(int from, int channel, std::span<std::byte> message) {
        if (!alive()) return {};
        return office_.receive(rank_, from, channel, message);
    }
    /// A part of what the communication stream does now begins, and the last one ends; "": none.
    void begin_activity(const Label& name) {
        if (!trace_) return;
        if (!activity_.view().empty())
            trace_->add({rank_, Track::communication, activity_, since_, engine_.now()});
        activity_ = name;
        since_ = engine_.now();
    }
    void trace_to(TraceSink* trace) { trace_ = trace; }
    Delivery wait(Request request) { return wait_any({&request, 1}).delivery; }
    Arrival wait_any(std::span<const Request> requests) {
        const Nanoseconds begin = engine_.now();
        const Delivery gone{Delivery::Outcome::cancelled, rank_};
        if (!alive()) return {0, gone};
        if ((limits_.waits > 0 && ++waits_ > limits_.waits) || begin > limits_.time)
            throw Stuck("rank " + std::to_string(rank_) + " is stuck: " + std::to_string(waits_) +
                        " waits up to " + std::to_string(begin.count()) +
                        " ns. It waits again and again without getting anywhere.");
        const Arrival arrival = office_.wait_any(rank_, requests);
        if (faults_) {
            const Nanoseconds pause = faults_->end_of_pause(rank_) - engine_.now();
            if (pause.count() > 0) engine_.advance(pause);
            if (!alive()) return {0, gone};
        }
        if (engine_.current() == main_) busy_.exposed_communication += engine_.now() - begin;
        return arrival;
    }
    /// What the next messages belong to; a Pipeline says it.
    void working_on(const Operation& operation) {
        if (faults_) faults_->reducing(rank_, operation);
    }
    void suffer(FaultHooks* faults, Limits limits) {
        faults_ = faults;
        limits_ = limits;
    }

private:
    /// Errors: throws RankDied where the rank is dead, unless it is unwinding already.
    [[nodiscard]] bool alive() const {
        if (!faults_ || !faults_->dead(rank_)) return true;
        if (std::uncaught_exceptions() == 0) throw RankDied{rank_};
        return false;
    }

    FaultHooks* faults_ = nullptr;
    Limits limits_{};
    std::uint64_t waits_ = 0;
    int rank_;
    Placement placement_;
    Engine& engine_;
    PostOffice& office_;
    Busy& busy_;
    const Strand*& main_;
    TraceSink* trace_ = nullptr;
    Label activity_{};  ///< what the stream is at since since_
    Nanoseconds since_{};
};

/// A second fiber of a rank, made when its first task is queued; a gx::Stream.
/// Errors: a task that throws fails its world; the tasks behind it are dropped, and wait() throws
///         the task's exception. A task must not wait for its own stream.
class Stream {
public:
    Stream(int rank, Engine& engine, Busy& busy, TraceSink* trace)
        : rank_(rank), engine_(engine), busy_(busy), trace_(trace) {}
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    Event enqueue(Task task) {
        tasks_.push_back(task);
        if (trace_) queued_at_.push_back(engine_.now());
        if (!strand_)
            strand_ = &engine_.spawn(rank_, "stream of rank " + std::to_string(rank_),
                                     [this] { work(); });
        else
            engine_.wake(*strand_);
        if (races_) {
            if (actor_ < 0) actor_ = races_->add_stream(rank_, *strand_);
            races_->queued(rank_, actor_);
        }
        return {++queued_};
    }
    void wait(Event event) {
        GX_EXPECT(engine_.current() != strand_, "a task cannot wait for the stream that runs it");
        GX_EXPECT(event.sequence <= queued_, "this event is not of this stream");
        const Nanoseconds begin = engine_.now();
        waiter_ = engine_.current();
        while (done_ < event.sequence) (void)engine_.block(Engine::no_deadline, false);
        waiter_ = nullptr;
        busy_.exposed_communication += engine_.now() - begin;
        if (races_ && actor_ >= 0) races_->waited(rank_, actor_, event);
        if (error_ && std::uncaught_exceptions() == 0) std::rethrow_exception(error_);
    }
    /// Whether a task is queued or runs.
    [[nodiscard]] bool working() const { return done_ < queued_; }
    /// What the code that runs now touches: checked where the cluster detects races.
    void note(Access access, std::span<const std::byte> memory, const Operation& operation) {
        if (races_) races_->note(rank_, access, memory, operation);
        if (trace_ && engine_.current() == strand_) operation_ = operation;
    }
    void watch(RaceHooks* races) { races_ = races; }
    /// nullptr where nobody looks for races.
    [[nodiscard]] RaceHooks* races() const { return races_; }
    /// Finishes what is queued and ends the fiber.
    void close() {
        closed_ = true;
        if (!strand_) return;
        engine_.wake(*strand_);
        waiter_ = engine_.current();
        while (!strand_->finished() && !ended_) (void)engine_.block(Engine::no_deadline, false);
    }

private:
    void work() {
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
    void perform(Task task) {
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
    /// A task from its queueing to its end, under Horovod's names.
    void trace(Nanoseconds begin) {
        Span span{rank_, Track::communication, "ALLREDUCE", begin, engine_.now(),
                  std::max(std::int64_t{0}, operation_.step), operation_.bucket};
        trace_->add(span);
        span.track = Track::queue;
        span.name = "QUEUE";
        span.begin = queued_at_.front();
        span.end = begin;
        if (span.begin < span.end) trace_->add(span);
        queued_at_.pop_front();
        operation_ = {};
    }

    int rank_;
    Engine& engine_;
    Busy& busy_;
    TraceSink* trace_;
    RaceHooks* races_ = nullptr;
    int actor_ = -1;  ///< among those of races_
    std::deque<Task> tasks_{};
    std::deque<Nanoseconds> queued_at_{};  ///< where there is a trace
    Operation operation_{};                ///< of the present task, as it says
    std::uint64_t queued_ = 0, done_ = 0;
    Strand* strand_ = nullptr;
    Strand* waiter_ = nullptr;
    std::exception_ptr error_{};
    bool closed_ = false, ended_ = false;
};

}  // namespace gx::sim
