// Pipeline<R, S, T>: gradients in flight: buckets reduced on a stream, s steps stale.
#pragma once

#include <algorithm>    // copy, max, min
#include <concepts>     // same_as
#include <cstdint>      // int64_t
#include <exception>    // uncaught_exceptions
#include <optional>     // no gradient yet
#include <span>         // gradients
#include <string>       // sentences
#include <type_traits>  // remove_reference_t
#include <utility>      // declval, exchange, move
#include <vector>       // slots

#include <gx/core/cold.hpp>                  // GX_COLD
#include <gx/core/contract.hpp>              // GX_EXPECT
#include <gx/core/detail/rethrow_named.hpp>  // rethrow_named_throughout
#include <gx/core/error.hpp>                 // Error
#include <gx/core/stream.hpp>                // Stream, Task, Event
#include <gx/core/world.hpp>                 // HasMemory
#include <gx/memory/buffer.hpp>              // Buffer
#include <gx/memory/memory.hpp>              // ViewIn
#include <gx/memory/queue.hpp>               // StreamOrdered
#include <gx/reducer/bucket_slices.hpp>      // BucketSlices
#include <gx/reducer/concept.hpp>            // Reducer, ReduceReport

namespace gx {

namespace detail::reducer {
/// Whether R, or the reducer that it wraps, works_in_place.
template <class R>
[[nodiscard]] consteval bool works_in_place() {
    if constexpr (requires { R::works_in_place; }) return R::works_in_place;
    else if constexpr (requires { typename R::wrapped; })
        return works_in_place<typename R::wrapped>();
    else return false;
}

/// A gradient in flight, in memory M.
template <class M>
struct GradientSlot {
    GradientSlot(MemoryResource* memory, std::int64_t elements, const Label& name)
        : values(memory, elements, name) {}
    Buffer<float> values;
    ScalarIn<float, M> loss_scale = BucketIn<M>().loss_scale;
    Event event{};  ///< of its last bucket; 0 when nothing is in flight
    ReduceReport report{};
    int failed_bucket = -1;
};

/// In a handler: throws on what a reducer has thrown, with the rank and the bucket.
GX_COLD [[noreturn]] inline void rethrow_of_bucket(int rank, const Operation& o) {
    rethrow_named_throughout("rank " + std::to_string(rank) + ", step " + std::to_string(o.step) +
                             ", bucket " + std::to_string(o.bucket) + ", " +
                             std::string(o.what.view()));
}
}  // namespace detail::reducer

/// An averaged gradient, and what its reduction did. Where the report is incomplete the values are
/// not to be used: `report.delivery.peer` is missing, since `failed_bucket` of gradient `index`; it
/// is this rank where its reducer has thrown.
template <class M>
struct ReducedIn {
    std::uint64_t index = 0;  ///< which gradient, counted from 0
    ViewIn<float, M> values{};
    ReduceReport report{};   ///< bytes and steps summed over the buckets
    int buckets = 0;         ///< in a whole gradient
    int failed_bucket = -1;  ///< counted from the end of the flat vector, in order of reduction
    Event reduced{};         ///< in the memory of a device: when the values are there
};
using Reduced = ReducedIn<HostMemory>;

/// A gradient that is reduced and not yet collected, for checkpoints.
template <class M>
struct PendingGradientIn {
    std::uint64_t index = 0;
    ViewIn<float, M> values{};
    bool complete = true;
    Delivery delivery{};     ///< names the missing rank where it is not complete
    int failed_bucket = -1;  ///< as in Reduced
};
using PendingGradient = PendingGradientIn<HostMemory>;

struct PipelineOptions {
    std::int64_t elements = 0;         ///< of the flat vector
    std::int64_t bucket_elements = 0;  ///< 0: what the reducer asks for, else the whole vector
    std::uint64_t seed = 0;            ///< of a reducer's random choices
    std::span<const ParameterSlice> slices{};  ///< of the flat vector, in any order
    /// Of the gradients and of the reducer; nullptr: the host's, where the transport has it best.
    MemoryResource* memory = nullptr;
    bool defers = false;  ///< on a device, where gradients are stale: see Pipeline
};

/// Where gradients that reducer R averages over `link` lie, of the host's memory.
template <class R, class T>
[[nodiscard]] MemoryResource* gradient_buffers(T& link) {
    if constexpr (detail::reducer::works_in_place<R>())
        if (MemoryResource* const shared = shared_buffers(link)) return shared;
    return message_buffers(link);
}

/// Holds the gradients in flight: staleness + 1 flat vectors, and a reducer working on them.
///
///     Pipeline pipeline(rank.stream(), rank.transport(), {.elements = n}, Ring<fp16>());
///     for step = 0, 1, ... in order:
///         gradients = begin(step)              write them, from the end of the vector down, while
///         ready(watermark)                     telling how far they are final; lastly with 0
///         collect(step)                        the averaged gradient to apply now, or none yet
///         skip()                               it is not applied after all
///     while (auto late = drain()) ...          the last `staleness` gradients, in order
///
/// With staleness s, collect(t) returns gradient t - s, and nothing while t < s. No gradient is
/// lost or repeated: N steps give N gradients, the last s of them from drain().
///
/// Buckets hold `bucket_elements` elements counted from the end of the vector; the last bucket, at
/// the front, holds the rest. Bucket b is queued when the watermark has passed its begin.
///
/// A reducer with settle() gets it for each gradient at the next call of begin(), drain() or
/// pending(): applied, unless skip() was called.
///
/// Over a transport T of host memory they run on the Stream S. Over one in the memory of a device S
/// is its queue: ready() queues the reductions behind the event that it is given, and the host
/// waits for nothing: collect() returns an event too. Whether a mean was applied is then a value on
/// the device, which settle() passes on.
///
/// With `defers` begin(t + 1) queues the reductions of gradient t, and not ready(): all work from
/// begin(t) to settle() is then of step t, and no reduction goes on behind it, so that a World can
/// replay it where repeats(t) is true: steps behind pending() apart, which has queued them. No bit
/// changes.
///
/// Order:   buckets are reduced in one order on every rank, so timing never changes the bits.
/// Threads: one rank's code calls it; reductions run on the stream. A reducer that is not
///          asynchronous has finished each bucket before ready() returns.
/// Errors:  a call out of turn breaks the contract. After a bucket that failed, later ones are not
///          sent. Its destructor waits for work in flight and drops its errors; when an exception
///          unwinds it, it calls the stream's cancel() first, if there is one. Only the forced
///          unwinding of a fiber or thread, which must not end in a handler, leaves it.
/// Cost:    a step allocates nothing.
template <class R, class S, Link T>
class Pipeline {
    static_assert(explain_reducer<R>());
    using M = memory_of<T>;
    static constexpr bool on_host = std::same_as<M, HostMemory>;

public:
    static constexpr int staleness = R::staleness;

    using Options = PipelineOptions;
    using Gradient = ViewIn<float, M>;
    using Scale = ScalarIn<float, M>;

    /// Stream and transport outlive it.
    Pipeline(S& stream, T& link, const Options& options, R reducer)
        : stream_(stream),
          link_(link),
          elements_(options.elements),
          bucket_elements_(bucket_size(options)),
          buckets_(static_cast<int>((elements_ - 1) / bucket_elements_ + 1)),
          reducer_(std::move(reducer)),
          seed_(options.seed),
          defers_(options.defers && !on_host && staleness > 0),
          slices_(options.slices, elements_, bucket_elements_) {
        MemoryResource* memory = options.memory;
        MemoryResource* messages = options.memory;
        if constexpr (on_host)
            if (memory == nullptr) {
                memory = gradient_buffers<R>(link);
                messages = message_buffers(link);
            }
        for (int i = 0; i <= staleness; ++i)
            slots_.emplace_back(memory, elements_, Label("gradient slot ") + i);
        pending_.reserve(slots_.size());
        reducer_.reserve(plan(messages));
        if constexpr (on_host)
            for (std::size_t i = 0; i < slots_.size(); ++i)
                note(Access::begin, values(slots_[i]), {Label("gradient slot ") + int(i)});
    }
    Pipeline(const Pipeline&) = delete;
    Pipeline& operator=(const Pipeline&) = delete;
    ~Pipeline() noexcept(false) {
        finish();
        if constexpr (on_host)
            for (Slot& s : slots_) note(Access::end, values(s), {});
    }

    [[nodiscard]] std::int64_t elements() const { return elements_; }
    [[nodiscard]] std::int64_t bucket_elements() const { return bucket_elements_; }
    [[nodiscard]] int buckets() const { return buckets_; }
    [[nodiscard]] R& reducer() { return reducer_; }
    /// `reducer`, reserved as its own is, in the memory of the host.
    [[nodiscard]] R on_host_as_own(R reducer) const {
        reducer.reserve(plan(nullptr));
        return reducer;
    }

    /// The vector to write gradient `step` into, times `loss_scale`; it holds what an earlier one
    /// left there.
    [[nodiscard]] Gradient begin(std::uint64_t step, Scale loss_scale = BucketIn<M>().loss_scale) {
        GX_EXPECT(step == begun_, "gradients begin in order, each once");
        GX_EXPECT(begun_ - collected_ < slots_.size(), "collect the gradient of the step before");
        GX_EXPECT(begun_ == 0 || queued_ == buckets_, "call ready(0) before the next step");
        queue_deferred();
        settle_state(true);
        ++begun_;
        queued_ = 0;
        Slot& s = slot(step);
        s.loss_scale = loss_scale;
        s.report = {};
        s.failed_bucket = -1;
        s.event = {};
        if constexpr (on_host)
            note(Access::write, values(s), {"gradient", static_cast<std::int64_t>(step)});
        return values(s);
    }

    /// All elements from `watermark` up are final: queues every bucket that is now whole.
    void ready(std::size_t watermark)
        requires(on_host)
    {
        GX_EXPECT(begun_ > 0, "begin a gradient before it is ready");
        while (is_whole(watermark)) {
            const std::uint64_t work = (begun_ - 1) * static_cast<std::uint64_t>(buckets_) +
                                       static_cast<std::uint64_t>(queued_);
            ++queued_;
            slot(begun_ - 1).event = stream_.enqueue({&Pipeline::reduce_on_stream, this, work});
            if constexpr (!R::asynchronous) stream_.wait(slot(begun_ - 1).event);
        }
    }
    /// They are, once the event `final` is reached, which is of another queue of this rank.
    void ready(std::size_t watermark, Event final)
        requires(!on_host)
    {
        static_assert(
            requires(T& link, const BucketIn<M>& b) { reducer_.all_reduce(link, b); },
            "gx: this reducer works on the host's memory only, and the World's gradients lie on "
            "devices. Fix: let all_reduce take a BucketOn<T> over any Link T, and launch kernels; "
            "or train on a world of the host's memory.");
        GX_EXPECT(begun_ > 0, "begin a gradient before it is ready");
        if (defers_) {
            if (watermark > 0 || queued_ == buckets_) return;
            queued_ = buckets_;
            deferred_ = final;
            return;
        }
        if (is_whole(watermark)) stream_.wait_for(final);
        while (is_whole(watermark)) {
            reduce(begun_ - 1, queued_++);
            slot(begun_ - 1).event = stream_.record();
        }
    }

    /// Before begin(step): whether collect(step) returns a gradient.
    [[nodiscard]] bool collects(std::uint64_t step) const {
        return step >= first_ + static_cast<std::uint64_t>(staleness);
    }
    /// Before begin(step): whether it queues what it queues for step - (staleness + 1), where the
    /// reducer RepeatsWork, of one next_work(), and has_deferred() is the same. With a staleness
    /// only if it defers.
    [[nodiscard]] bool repeats(std::uint64_t step) const {
        return RepeatsWork<R> && collects(step) && (staleness == 0 || defers_);
    }
    /// Whether begin() queues reductions.
    [[nodiscard]] bool has_deferred() const { return deferred_.sequence > 0; }

    /// The averaged gradient that step `step` applies; valid until the next begin().
    [[nodiscard]] std::optional<ReducedIn<M>> collect(std::uint64_t step) {
        GX_EXPECT(step + 1 == begun_ && queued_ == buckets_, "collect(step) follows ready(0)");
        if (!collects(step)) return std::nullopt;
        return take();
    }

    /// After the last step: the next gradient not yet collected, or none.
    [[nodiscard]] std::optional<ReducedIn<M>> drain() {
        queue_deferred();
        settle_state(true);
        if (collected_ == begun_) return std::nullopt;
        GX_EXPECT(queued_ == buckets_, "drain() follows ready(0)");
        return take();
    }

    /// Skips the step of the gradient that was collected last: its mean is not applied.
    void skip() {
        GX_EXPECT(unsettled_, "skip() follows collect() or drain()");
        settle_state(false);
    }

    /// The same where the device decides: `applied` is known there once `decided` is reached.
    void settle(ScalarIn<Flag, M> applied, Event decided)
        requires(!on_host)
    {
        GX_EXPECT(unsettled_, "settle() follows collect() or drain()");
        unsettled_ = false;
        if constexpr (Settles<R>) {
            static_assert(SettlesOn<R, S>,
                          "gx: this reducer learns on the host whether a mean was applied, and on "
                          "this device the device decides. Fix: add 'void settle_on(Queue&, "
                          "std::uint64_t gradient, ScalarIn<Flag, M> applied)', which queues "
                          "kernels, as reducer/error_feedback_state.hpp does.");
            stream_.wait_for(decided);
            reducer_.settle_on(stream_, collected_ - 1, applied);
            settled_ = stream_.record();
        }
    }

    /// On a device, after a loss: how many gradients that were not collected are reduced.
    [[nodiscard]] int complete() const {
        std::uint64_t g = collected_;
        const std::uint64_t end = begun_ - (deferred_.sequence > 0 ? 1 : 0);
        while (g < end && slot(g).report.complete() && stream_.reached(slot(g).event)) ++g;
        return static_cast<int>(g - collected_);
    }
    /// Waits until they are reduced: the gradients not yet collected, oldest first. They stay.
    [[nodiscard]] std::span<const PendingGradientIn<M>> pending() {
        GX_EXPECT(begun_ == collected_ || queued_ == buckets_, "pending() follows ready(0)");
        queue_deferred();
        settle_state(true);
        if (settled_.sequence > 0) (void)wait(std::exchange(settled_, {}));
        pending_.clear();
        for (std::uint64_t g = collected_; g < begun_; ++g) {
            settle(slot(g));
            Slot& s = slot(g);
            if constexpr (on_host)
                note(Access::read, values(s), {"keep gradient", static_cast<std::int64_t>(g)});
            pending_.push_back(
                {g, values(s), s.report.complete(), s.report.delivery, s.failed_bucket});
        }
        return pending_;
    }

    /// Restores the state in which `pending()` returned `kept`, before step `next_step`. With fewer
    /// gradients than the reducer is late, the oldest was the first of its world.
    /// In the memory of a device the caller fills slot_of(index), by a queue.
    void restore(std::uint64_t next_step, std::span<const PendingGradient> kept) {
        GX_EXPECT(begun_ == 0, "restore before the first step");
        GX_EXPECT(kept.size() <= std::min(next_step, static_cast<std::uint64_t>(staleness)),
                  "a checkpoint keeps at most as many gradients as the reducer is late");
        begun_ = next_step;
        first_ = next_step - kept.size();
        collected_ = next_step - kept.size();
        queued_ = buckets_;
        for (const PendingGradient& p : kept) {
            const Gradient to = slot_of(p.index);
            GX_EXPECT(p.index >= collected_ && p.index < begun_, "a kept gradient of another step");
            GX_EXPECT(p.values.size() == to.size(), "a kept gradient of another network");
            if constexpr (on_host) std::copy(p.values.begin(), p.values.end(), to.begin());
        }
    }
    /// Where a gradient in flight lies.
    [[nodiscard]] Gradient slot_of(std::uint64_t gradient) { return values(slot(gradient)); }

private:
    using Slot = detail::reducer::GradientSlot<M>;
    struct Range {
        std::int64_t begin = 0, end = 0;
    };

    static std::int64_t bucket_size(const Options& o) {
        GX_EXPECT(o.elements > 0, "a gradient has at least one element");
        GX_EXPECT(o.bucket_elements >= 0,
                  "a bucket has at least one element, or 0 for the default");
        if (o.bucket_elements > 0) return o.bucket_elements;
        if constexpr (requires { R::bucket_elements; })
            if (R::bucket_elements > 0) return R::bucket_elements;
        return o.elements;
    }
    [[nodiscard]] ReducePlan plan(MemoryResource* memory) const {
        return {.placement = link_.placement(),
                .elements = elements_,
                .bucket_elements = std::min(elements_, bucket_elements_),
                .in_flight = staleness + 1,
                .seed = seed_,
                .slices = slices_.all(),
                .memory = memory};
    }
    [[nodiscard]] Range bucket(int b) const {
        const std::int64_t end = elements_ - b * bucket_elements_;
        return {std::max<std::int64_t>(0, end - bucket_elements_), end};
    }
    [[nodiscard]] Slot& slot(std::uint64_t gradient) { return slots_[gradient % slots_.size()]; }
    [[nodiscard]] const Slot& slot(std::uint64_t gradient) const {
        return slots_[gradient % slots_.size()];
    }
    [[nodiscard]] static Gradient values(Slot& s) { return s.values.template view<M>(); }
    [[nodiscard]] bool is_whole(std::size_t watermark) const {  // the next bucket
        return queued_ < buckets_ && bucket(queued_).begin >= static_cast<std::int64_t>(watermark);
    }

    /// The reductions of the newest gradient, where they were deferred.
    void queue_deferred() {
        if constexpr (!on_host) {
            const Event final = std::exchange(deferred_, {});
            if (final.sequence == 0) return;
            stream_.wait_for(final);
            for (int b = 0; b < buckets_; ++b) reduce(begun_ - 1, b);
            slot(begun_ - 1).event = stream_.record();
        }
    }

    void finish() {                // what is in flight
        if constexpr (!on_host) {  // a gradient that was collected may be in flight too
            try {
                if (begun_ > 0) (void)wait(stream_.record());
            } catch (const Error&) {  // of the device, which its other calls throw too
            }
            return;
        }
        bool in_flight = false;
        for (std::uint64_t g = collected_; g < begun_; ++g) in_flight |= slot(g).event.sequence > 0;
        if (!in_flight) return;
        if constexpr (requires { stream_.cancel(); })
            if (std::uncaught_exceptions() > exceptions_) stream_.cancel();
        for (std::uint64_t g = collected_; g < begun_; ++g) {
            try {
                (void)wait(slot(g).event);
            } catch (...) {  // a task's error, which its world knows; or the end of this fiber
                if (detail::is_forced_unwind()) throw;
            }
        }
    }

    /// The host waits.
    Delivery wait(Event e) {
        if constexpr (on_host) {
            stream_.wait(e);
            return {};
        } else {
            return stream_.wait(e);
        }
    }
    void note(Access access, std::span<const float> memory, const Operation& operation) {
        gx::note(stream_, access, memory, operation);
    }

    static void reduce_on_stream(void* self, std::uint64_t work) {
        auto& p = *static_cast<Pipeline*>(self);
        const auto buckets = static_cast<std::uint64_t>(p.buckets_);
        p.reduce(work / buckets, static_cast<int>(work % buckets));
    }
    void reduce(std::uint64_t gradient, int b) {
        Slot& s = slot(gradient);
        if (!broken_.complete()) {
            s.report.delivery = broken_;
            if (s.failed_bucket < 0) s.failed_bucket = b;
            return;
        }
        const auto [begin, end] = bucket(b);
        const Gradient part = values(s).subspan(static_cast<std::size_t>(begin),
                                                static_cast<std::size_t>(end - begin));
        BucketIn<M> bucket(part);
        bucket.index = b;
        bucket.count = buckets_;
        bucket.offset = begin;
        bucket.gradient = gradient;
        bucket.loss_scale = s.loss_scale;
        bucket.slices = slices_.of(b);
        const Operation operation{"all-reduce", static_cast<std::int64_t>(gradient), b};
        if constexpr (on_host) note(Access::write, part, operation);
        const ReduceReport done = reduced(bucket, operation);
        if constexpr (on_host) note(Access::write, part, operation);  // until here
        s.report.bytes_sent += done.bytes_sent;
        s.report.steps += done.steps;
        if (done.complete()) return;
        s.report.delivery = broken_ = done.delivery;
        s.failed_bucket = b;
    }

    /// Once the reducer has thrown, no bucket is reduced any more: the other ranks would take its
    /// messages for those of this one.
    ReduceReport reduced(const BucketIn<M>& bucket, const Operation& operation) {
        try {
            auto&& link = in_operation(link_, operation);
            return reducer_.all_reduce(link, bucket);
        } catch (...) {
            broken_ = {Delivery::Outcome::cancelled, link_.rank()};
            slot(bucket.gradient).report.delivery = broken_;
            slot(bucket.gradient).failed_bucket = bucket.index;
            detail::reducer::rethrow_of_bucket(link_.rank(), operation);
        }
    }

    void settle_state(bool applied) {
        if (!std::exchange(unsettled_, false)) return;
        if constexpr (Settles<R>) {
            GX_EXPECT(on_host, "a device settles each gradient itself: settle(applied, decided)");
            reducer_.settle(collected_ - 1, applied);
        }
    }
    void settle(Slot& s) {
        if (s.event.sequence > 0)
            if (const Delivery d = wait(s.event); !d.complete()) s.report.delivery = d;
        s.event = {};
    }
    ReducedIn<M> take() {
        const std::uint64_t g = collected_++;
        Slot& s = slot(g);
        const Event reduced = s.event;
        if constexpr (on_host) settle(s);
        unsettled_ = s.report.complete();  // else its fate is not known here
        if constexpr (on_host)
            note(Access::read, values(s), {"collect gradient", static_cast<std::int64_t>(g)});
        return {g, values(s), s.report, buckets_, s.failed_bucket, reduced};
    }

    S& stream_;
    T& link_;
    std::int64_t elements_;
    std::int64_t bucket_elements_;
    int buckets_;
    R reducer_;
    std::uint64_t seed_;
    bool defers_;
    detail::reducer::BucketSlices slices_;
    std::vector<Slot> slots_;
    std::vector<PendingGradientIn<M>> pending_;
    std::uint64_t first_ = 0;      ///< gradient that this pipeline began with
    std::uint64_t begun_ = 0;      ///< gradients begun
    std::uint64_t collected_ = 0;  ///< gradients given back
    Event settled_{};              ///< in the memory of a device: the reducer's state after it
    Event deferred_{};             ///< the newest gradient is final, and its reductions not queued
    bool unsettled_ = false;       ///< settle() is due for the last gradient
    int queued_ = 0;               ///< buckets of the newest gradient that were queued
    Delivery broken_{};            ///< the first reduction that failed; touched on the stream only
    int exceptions_ = std::uncaught_exceptions();
};

/// Where a rank's reductions run: on its stream, or its transport's queue.
template <class Rank>
[[nodiscard]] constexpr auto& reductions_of(Rank& rank) {
    if constexpr (HasMemory<Rank>) return rank.transport().queue();
    else return rank.stream();
}
/// A Pipeline of R on a rank of a World.
template <class R, class Rank>
using PipelineOn =
    Pipeline<R, std::remove_reference_t<decltype(reductions_of(std::declval<Rank&>()))>,
             std::remove_reference_t<decltype(std::declval<Rank&>().transport())>>;

}  // namespace gx
