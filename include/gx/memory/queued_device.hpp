// QueuedDevice: a device with memory of its own, whose work is queued.
#pragma once

#include <cstddef>      // size_t
#include <cstdint>      // uint64_t
#include <concepts>     // same_as
#include <optional>     // optional
#include <span>         // the host's memory
#include <string>       // names of layers
#include <type_traits>  // remove_cvref_t

#include <gx/core/device.hpp>        // Batch, ForwardReport, ParameterSlice
#include <gx/core/error.hpp>         // Delivery
#include <gx/core/function_ref.hpp>  // FunctionRef
#include <gx/core/stream.hpp>        // Event, Operation
#include <gx/memory/memory.hpp>      // ViewIn, ScalarIn
#include <gx/memory/queue.hpp>       // launch

namespace gx {

/// A queue of kernels and copies in memory M, in order. Besides launch(queue, kernel, ...):
///
///     record()                    the point behind all that was queued
///     wait_for(event)             what is queued from here on runs after `event`, of another queue
///                                 of the rank
///     wait(event)                 the host waits; incomplete where a rank that it needs is missing
///     copy_in(span, view, what)   of what the host holds now
///     copy_out(view, span, what)  the span is the queue's until the event behind it was waited for
///     host_reads(span, what)      the host reads such a span: for doubles that check it
template <class Q>
concept DeviceQueue =
    !InHostMemory<Q> && requires(Q& q, Event e, std::span<const float> in, std::span<float> out,
                                 ViewIn<float, memory_of<Q>> view,
                                 ViewIn<const float, memory_of<Q>> read, const Operation& what) {
        { q.record() } -> std::same_as<Event>;
        { q.wait_for(e) } -> std::same_as<void>;
        { q.wait(e) } -> std::same_as<Delivery>;
        { q.copy_in(in, view, what) } -> std::same_as<void>;
        { q.copy_out(read, out, what) } -> std::same_as<void>;
        { q.host_reads(in, what) } -> std::same_as<void>;
    };

/// A queue that can go on after a rank was lost that its work needs: for ContinueOnSurvivors.
///
///     reached(event)   whether it is; waits for nothing
///     abandon()        runs what the rank has queued and needs no other rank for, then drops the
///                      rest of the queue, as behind a lost rank's message; its events count as
///                      reached. So what was done is whole kernels, in the order of the queue
///     runs_abandoned_work   optional, true: it can drop nothing, and work behind such a message
///                      runs on memory that holds anything, which messages may take to other ranks
template <class Q>
concept Abandons = DeviceQueue<Q> && requires(Q& q, const Q& c, Event e) {
    { c.reached(e) } -> std::same_as<bool>;
    { q.abandon() } -> std::same_as<void>;
};

template <class Q>
concept RunsAbandonedWork = Abandons<Q> && requires { requires Q::runs_abandoned_work; };

/// Called while a backward is queued: all gradients from element `watermark` to the end are final
/// once `event` is reached.
using GradientsQueued = FunctionRef<void(std::size_t watermark, Event event)>;

/// Device (core/device.hpp), but that it queues: nothing here waits, unless it says so.
///
///     queue()                           of all work below
///     load(batch)                       for the next forward; follows the backward of the last
///                                       batch. The batch's memory is free when it returns; it
///                                       waits where the device is two batches behind
///     forward(mode, report)             `report` is one ForwardReport on the device
///     backward(scale, gradients, ready) `scale` is read on the device
///     update(change)                    change(parameters) queues kernels on queue()
///     to_canonical, from_canonical      between the device's memory and the host's: they wait
///     first_non_finite()                waits; of the first forward whose loss was not finite,
///                                       since later ones may be queued
///
/// Optional: warning(), a string: what the constructor noticed, for a run's record; empty: nothing.
///
/// Every operation runs on queue(), and ready's events are of it.
///
/// Optional: load(parts, rate), and rate(): the parts of a step's batch, at most
/// DeviceOptions::update.micro_batches, come in one copy with the learning rate of the update
/// behind them, which lies where rate() says until the next load. Forwards are of parts in turn.
///
/// Optional: int batch_slot() const: which of its buffers hold the batch that was loaded. For
/// batches of one slot with parts of the same counts, forward in Mode::train, backward and update
/// queue the same work but for values in memory.
template <class D>
concept QueuedDevice =
    !InHostMemory<D> &&
    requires(D& d, const D& c, const Batch& batch, Mode mode, GradientsQueued ready,
             ViewIn<ForwardReport, memory_of<D>> report, ScalarIn<float, memory_of<D>> scale,
             ViewIn<float, memory_of<D>> view, ViewIn<const float, memory_of<D>> read,
             FunctionRef<void(ViewIn<float, memory_of<D>>)> change, std::span<const float> in,
             std::span<float> out) {
        requires DeviceQueue<std::remove_cvref_t<decltype(d.queue())>>;
        { d.load(batch) } -> std::same_as<void>;
        { d.forward(mode, report) } -> std::same_as<void>;
        { d.backward(scale, view, ready) } -> std::same_as<void>;
        { c.parameters() } -> std::same_as<ViewIn<const float, memory_of<D>>>;
        { c.slices() } -> std::same_as<std::span<const ParameterSlice>>;
        { d.update(change) } -> std::same_as<void>;
        { d.statistics() } -> std::same_as<ViewIn<float, memory_of<D>>>;
        { d.to_canonical(read, out) } -> std::same_as<void>;
        { d.from_canonical(in, view) } -> std::same_as<void>;
        { d.first_non_finite() } -> std::same_as<std::optional<std::string>>;
    };

template <class D>
concept RepeatsPasses = QueuedDevice<D> && requires(const D& d) {
    { d.batch_slot() } -> std::same_as<int>;
};

template <class D>
concept LoadsParts =
    QueuedDevice<D> && requires(D& d, const D& c, std::span<const Batch> parts, float rate) {
        { d.load(parts, rate) } -> std::same_as<void>;
        { c.rate() } -> std::same_as<ScalarIn<float, memory_of<D>>>;
    };

/// A rank of devices that can run work again without queueing it.
///
///     repeats() const         whether it does so in this run
///     repeat(queue, key, f)   f, a FunctionRef<void()>, queues the same work on `queue` and the
///                             transport's for the same key, but for values in memory. It is called
///                             each time, and may wait for nothing and copy nothing from the host,
///                             and to it into the same memory each time. Errors: NotRepeated where
///                             the work is another one
///     forget_repeated()       from here on the work of each key may be another one
template <class R, class Q>
concept RepeatsQueuedWork =
    requires(R& r, const R& c, Q& queue, std::uint64_t key, FunctionRef<void()> f) {
        { c.repeats() } -> std::same_as<bool>;
        { r.repeat(queue, key, f) } -> std::same_as<void>;
        { r.forget_repeated() } -> std::same_as<void>;
    };

}  // namespace gx
