// StepSlots: what a step leaves on the device for the host; get, put, queue_of.
#pragma once

#include <algorithm>    // copy
#include <array>        // slots
#include <concepts>     // same_as
#include <cstdint>      // int64_t
#include <span>         // views
#include <string_view>  // names
#include <type_traits>  // is_trivially_copyable_v, remove_const_t
#include <utility>      // move
#include <vector>       // copies

#include <gx/core/error.hpp>              // LostRank
#include <gx/memory/buffer.hpp>           // Buffer
#include <gx/memory/queue.hpp>            // HostQueue
#include <gx/memory/queued_device.hpp>    // DeviceQueue
#include <gx/trainer/rank/decisions.hpp>  // Outcome

namespace gx::detail::trainer {

/// A copy of `view` on the host, which waits for it. Errors: LostRank, where the queue stopped.
template <class T>
[[nodiscard]] std::vector<std::remove_const_t<T>> get(HostQueue, std::span<T> view) {
    return {view.begin(), view.end()};
}
template <class T, class M, DeviceQueue Q>
[[nodiscard]] std::vector<std::remove_const_t<T>> get(Q& queue, DeviceView<T, M> view) {
    std::vector<std::remove_const_t<T>> here(view.size());
    queue.copy_out(DeviceView<const T, M>(view), std::span(here), {"copy to the host"});
    if (const Delivery d = queue.wait(queue.record()); !d.complete())
        throw LostRank({.operation = "copying to the host"}, d);
    return here;
}

/// Copies from the host.
template <class T>
void put(HostQueue, const std::vector<T>& from, std::span<T> view) {
    std::copy(from.begin(), from.end(), view.begin());
}
template <class T, class M, DeviceQueue Q>
void put(Q& queue, const std::vector<T>& from, DeviceView<T, M> view) {
    queue.copy_in(std::span<const T>(from), view, {"copy from the host"});
}

/// Where kernels on a device's memory are queued.
template <class Device>
[[nodiscard]] decltype(auto) queue_of(Device& device) {
    if constexpr (std::same_as<memory_of<Device>, HostMemory>) return HostQueue{};
    else return device.queue();
}

struct ReadStep {
    UnreadStep of;
    Outcome outcome{};
    Delivery delivery{};
};

/// Decisions D of a rank in memory M, and the outcomes of its last steps. On the host an outcome is
/// read in its step. On a device the host reads that of step t when it has queued step t + 1.
template <class D, std::size_t InFlight, class M>
class StepSlots;

template <class D, std::size_t InFlight>
class StepSlots<D, InFlight, HostMemory> {
public:
    using Scales = std::array<float, InFlight>;

    StepSlots(MemoryResource*, const D& start, int = 1) : decisions_(start) {}

    [[nodiscard]] std::span<D> decisions() { return {&decisions_, 1}; }
    [[nodiscard]] ForwardReport& report() { return report_; }
    /// Of a gradient in flight: its loss scale, and whether its mean was applied.
    [[nodiscard]] std::span<float> scale_view(std::uint64_t gradient) {
        return {&scales_[gradient % InFlight], 1};
    }
    [[nodiscard]] float scale_of(std::uint64_t gradient) const {
        return scales_[gradient % InFlight];
    }
    [[nodiscard]] std::span<Flag> applied_view(std::uint64_t gradient) {
        return {&applied_[gradient % InFlight], 1};
    }
    [[nodiscard]] float factor() const { return decisions_.factor; }
    /// The learning rate of the next update.
    void set_rate(HostQueue, float rate) { rate_ = rate; }
    [[nodiscard]] float rate() const { return rate_; }

    [[nodiscard]] bool empty() const { return true; }
    [[nodiscard]] bool full() const { return true; }  // once it is recorded
    void record_outcome(HostQueue, UnreadStep of, int = 1) { of_ = of; }
    [[nodiscard]] ReadStep read_outcome(HostQueue) {
        ReadStep read{.of = of_};
        RecordOutcome<D>{}({&decisions_, 1}, scale_of(std::uint64_t(of_.step)), {&report_, 1},
                           {&read.outcome, 1});
        return read;
    }
    [[nodiscard]] const D& get(HostQueue) const { return decisions_; }
    [[nodiscard]] const Scales& get_scales(HostQueue) const { return scales_; }
    void put(HostQueue, const D& d, const Scales& scales) {
        decisions_ = d;
        scales_ = scales;
    }

private:
    D decisions_;
    Scales scales_{};
    std::array<Flag, InFlight> applied_{};
    ForwardReport report_{};
    float rate_ = 0;
    UnreadStep of_{};
};

template <class D, std::size_t InFlight, class M>
class StepSlots {
    static_assert(std::is_trivially_copyable_v<D>,
                  "gx: this LossScale can't lie in the memory of a device: it is no plain value. "
                  "Fix: let it hold numbers only.");

public:
    using Scales = std::array<float, InFlight>;

    /// `micro_batches`: most in a step.
    StepSlots(MemoryResource* memory, const D&, int micro_batches = 1)
        : micro_batches_(std::size_t(micro_batches)),
          decisions_(memory, 1, "decisions"),
          scales_(memory, InFlight, "loss scales"),
          own_rate_(memory, 1, "learning rate"),
          applied_(memory, InFlight, "applied"),
          reports_(memory, latest * micro_batches, "reports"),
          outcomes_(memory, latest, "outcomes") {}

    [[nodiscard]] ViewIn<D, M> decisions() { return decisions_.template view<M>(); }
    /// Of a micro-batch of the step that is queued now.
    [[nodiscard]] ViewIn<ForwardReport, M> report_view(int micro_batch = 0) {
        return report_views().subspan(std::size_t(micro_batch), 1);
    }
    [[nodiscard]] ViewIn<float, M> scale_view(std::uint64_t gradient) {
        return scales_.template view<M>().subspan(gradient % InFlight, 1);
    }
    [[nodiscard]] ScalarIn<float, M> scale_of(std::uint64_t gradient) {
        return {scale_view(gradient)};
    }
    [[nodiscard]] ViewIn<Flag, M> applied_view(std::uint64_t gradient) {
        return applied_.template view<M>().subspan(gradient % InFlight, 1);
    }
    [[nodiscard]] ScalarIn<float, M> factor() { return {decisions().member(&D::factor)}; }
    template <DeviceQueue Q>
    void set_rate(Q& queue, float rate) {
        use_rate({own_rate_.template view<M>()});
        queue.copy_in(std::span<const float>(&rate, 1), own_rate_.template view<M>(),
                      {"learning rate"});
    }
    /// The device has it already.
    void use_rate(ScalarIn<float, M> rate) { rate_ = rate; }
    [[nodiscard]] ScalarIn<float, M> rate() const { return rate_; }
    /// Which of the outcomes, and of the gradients in flight, are of this step: its work is that of
    /// any other with the same number.
    [[nodiscard]] std::uint64_t parity(std::uint64_t step) const {
        return step % InFlight * latest + slot(queued_);
    }

    [[nodiscard]] bool empty() const { return queued_ == read_; }
    /// Whether the oldest is to be read before the next is recorded.
    [[nodiscard]] bool full() const { return queued_ - read_ == latest; }
    /// At the end of a step's work, of so many micro-batches.
    template <DeviceQueue Q>
    void record_outcome(Q& queue, UnreadStep of, int micro_batches = 1) {
        const ViewIn<const ForwardReport, M> reports =
            report_views().first(std::size_t(micro_batches));
        const std::size_t i = slot(queued_++);
        const auto outcome = outcomes_.template view<M>().subspan(i, 1);
        launch(queue, RecordOutcome<D>{}, ViewIn<const D, M>(decisions()),
               scale_of(std::uint64_t(of.step)), reports, outcome);
        queue.copy_out(ViewIn<const Outcome, M>(outcome), std::span(&here_[i], 1), {"outcome"});
        of_[i] = of;
        events_[i] = queue.record();
    }
    template <DeviceQueue Q>
    [[nodiscard]] ReadStep read_outcome(Q& queue) {
        const std::size_t i = slot(read_++);
        const Delivery d = queue.wait(events_[i]);
        if (!d.complete()) return {of_[i], {}, d};
        queue.host_reads(std::span<const Outcome>(&here_[i], 1), {"outcome"});
        return {of_[i], here_[i], d};
    }
    template <Abandons Q>
    [[nodiscard]] bool is_there(const Q& queue) const {
        return !empty() && queue.reached(events_[slot(read_)]);
    }
    template <DeviceQueue Q>
    [[nodiscard]] D get(Q& queue) {
        return detail::trainer::get(queue, decisions())[0];
    }
    template <DeviceQueue Q>
    [[nodiscard]] std::vector<Flag> get_applied(Q& queue) {
        return detail::trainer::get(queue, applied_.template view<M>());
    }
    template <DeviceQueue Q>
    [[nodiscard]] Scales get_scales(Q& queue) {
        const auto all = detail::trainer::get(queue, scales_.template view<M>());
        Scales out{};
        std::copy(all.begin(), all.end(), out.begin());
        return out;
    }
    template <DeviceQueue Q>
    void put(Q& queue, const D& d, const Scales& scales) {
        detail::trainer::put(queue, std::vector<D>{d}, decisions());
        detail::trainer::put(queue, std::vector<float>(scales.begin(), scales.end()),
                             scales_.template view<M>());
    }

private:
    static constexpr std::int64_t latest = 2;  ///< outcomes at once
    [[nodiscard]] static std::size_t slot(std::int64_t n) { return std::size_t(n % latest); }
    [[nodiscard]] ViewIn<ForwardReport, M> report_views() {
        return reports_.template view<M>().subspan(slot(queued_) * micro_batches_, micro_batches_);
    }

    std::size_t micro_batches_;
    Buffer<D> decisions_;
    Buffer<float> scales_, own_rate_;
    ScalarIn<float, M> rate_{};  ///< of the next update
    Buffer<Flag> applied_;
    Buffer<ForwardReport> reports_;  ///< (latest, micro-batches)
    Buffer<Outcome> outcomes_;
    std::array<Outcome, latest> here_{};
    std::array<UnreadStep, latest> of_{};
    std::array<Event, latest> events_{};
    std::int64_t queued_ = 0, read_ = 0;
};

/// The forward passes of one step, by its number from 1 on, and what they left; 0: what a run
/// begins with.
struct Pass {
    std::int64_t forwards = 0;
    ForwardReport report{};
};
struct KeepPass {
    static constexpr std::string_view name = "keep forward pass";
    std::int64_t forwards;
    bool adds;  ///< a later micro-batch of this step
    void operator()(std::span<const float> statistics, std::span<const ForwardReport> report,
                    std::span<float> kept, std::span<Pass> pass) const {
        std::copy(statistics.begin(), statistics.end(), kept.begin());
        if (!adds) pass[0] = {forwards};
        pass[0].report += report[0];
    }
};

struct KeepSettled {
    static constexpr std::string_view name = "keep settled gradient";
    static constexpr bool overwrites = true;
    std::int64_t gradient;
    void operator()(std::span<std::int64_t> kept) const { kept[0] = gradient + 1; }
};

/// The last `passes` forward passes on a device, as its queue has made them. And those of the last
/// `gradients` that its reducer has settled: the host is ahead.
template <class M>
class PassSlots {
public:
    PassSlots(MemoryResource* memory, std::size_t passes, std::size_t statistics,
              std::size_t gradients)
        : count_(passes),
          size_(statistics),
          settled_(memory, std::int64_t(gradients), "settled gradients"),
          statistics_(memory, std::int64_t(passes * statistics), "statistics of passes"),
          passes_(memory, std::int64_t(passes), "passes") {}

    template <DeviceQueue Q>
    void keep(Q& queue, std::int64_t forwards, ViewIn<const float, M> statistics,
              ViewIn<const ForwardReport, M> report, bool adds = false) {
        const std::size_t i = std::size_t(forwards) % count_;
        launch(queue, KeepPass{forwards, adds}, statistics, report,
               statistics_.template view<M>().subspan(i * size_, size_),
               passes_.template view<M>().subspan(i, 1));
    }
    /// On the queue of the reductions, behind settle_on().
    template <DeviceQueue Q>
    void keep_settled(Q& queue, std::int64_t gradient) {
        launch(queue, KeepSettled{gradient},
               settled_.template view<M>().subspan(std::size_t(gradient) % settled_.size(), 1));
    }
    /// By number modulo `gradients`: the latest one that was settled, plus 1.
    template <DeviceQueue Q>
    [[nodiscard]] std::vector<std::int64_t> settled(Q& queue) {
        return get(queue, settled_.template view<M>());
    }
    /// Calls f(pass, its statistics) for each.
    template <DeviceQueue Q>
    void each(Q& queue, auto f) {
        const auto passes = get(queue, passes_.template view<M>());
        const auto all = get(queue, statistics_.template view<M>());
        for (std::size_t i = 0; i < count_; ++i)
            if (std::size_t(passes[i].forwards) % count_ == i)  // else it was never written
                f(passes[i], std::span<const float>(all).subspan(i * size_, size_));
    }

private:
    std::size_t count_, size_;
    Buffer<std::int64_t> settled_;
    Buffer<float> statistics_;
    Buffer<Pass> passes_;
};

}  // namespace gx::detail::trainer
