// ErrorFeedbackState: residuals of error feedback, one for each gradient in flight.
#pragma once

#include <cstddef>  // size_t
#include <cstdint>  // uint64_t
#include <span>     // views
#include <string>   // names
#include <utility>  // swap
#include <vector>   // slots

#include <gx/core/contract.hpp>    // GX_EXPECT
#include <gx/memory/buffer.hpp>    // Buffer
#include <gx/memory/kernels.hpp>   // SwapIf
#include <gx/memory/queue.hpp>     // launch
#include <gx/reducer/concept.hpp>  // StateList, ReducePlan, Bucket

namespace gx {

/// One rank's residual of a whole gradient, in the gradient's layout. For a reducer that sends less
/// than it is given.
///
/// With s gradients in flight there are s residuals, and gradient g works on residual g mod s: it
/// need not wait for the fate of the one before it. A gradient's residual takes effect when it is
/// settled as applied, and is dropped, bit for bit, when its step is skipped.
///
///     applied gradients + residuals = gradients of the steps that are not skipped
///
/// Units: of the gradient without its loss scale, which may change from step to step.
/// Cost:  2 s floats an element; no copies on the host, a pass on a device.
class ErrorFeedbackState {
public:
    /// The residual that a bucket starts from, and where it writes what it leaves.
    template <class M>
    struct Residual {
        ViewIn<const float, M> before;
        ViewIn<float, M> after;
    };

    void reserve(const ReducePlan& plan) {
        GX_EXPECT(plan.in_flight >= 1, "at least one gradient is in flight");
        slots_.clear();
        for (int i = 0; i < plan.in_flight; ++i) {
            Slot& s = slots_.emplace_back();
            s.kept = {plan.memory, plan.elements, "residual"};
            s.next = {plan.memory, plan.elements, "residual in flight"};
            s.name = "residual " + std::to_string(i);
            s.next_name = s.name + ", in flight";
        }
        on_device_ = plan.on_device();
    }

    /// Errors: a bucket outside of the reserved gradient breaks the contract.
    template <class M>
    [[nodiscard]] Residual<M> of(const BucketIn<M>& bucket) {
        Slot& s = slot(bucket.gradient);
        const auto offset = static_cast<std::size_t>(bucket.offset);
        GX_EXPECT(offset + bucket.size() <= s.kept.size(), "a bucket beyond the reserved gradient");
        return {s.kept.template view<M>().subspan(offset, bucket.size()),
                s.next.template view<M>().subspan(offset, bucket.size())};
    }

    /// Reducer's settle().
    void settle(std::uint64_t gradient, bool applied) {
        if (applied) std::swap(slot(gradient).kept, slot(gradient).next);
    }
    /// Reducer's settle_on(): swaps the values, so that state() holds the same bits.
    template <class Q>
    void settle_on(Q& queue, std::uint64_t gradient, ScalarIn<Flag, memory_of<Q>> applied) {
        using M = memory_of<Q>;
        Slot& s = slot(gradient);
        launch(queue, kernels::SwapIf{}, applied, s.next.template view<M>(),
               s.kept.template view<M>());
    }

    /// Reducer's state(): each residual, and with several also what gradients in flight leave.
    [[nodiscard]] StateList state() {
        StateList list;
        for (Slot& s : slots_) {
            add(list, s.name, s.kept);
            if (slots_.size() > 1) add(list, s.next_name, s.next);
        }
        return list;
    }

    /// Reducer's unsettled(): what state() lacks of it.
    [[nodiscard]] StateList unsettled() {
        StateList list;
        if (slots_.size() == 1) add(list, slots_[0].next_name, slots_[0].next);
        return list;
    }

    /// The residual that gradient `gradient` starts from, on the host.
    [[nodiscard]] std::span<const float> kept(std::uint64_t gradient) {
        return slot(gradient).kept.view();
    }

private:
    struct Slot {
        Buffer<float> kept, next;  ///< next: if the gradient in flight is applied
        std::string name, next_name;
    };
    void add(StateList& list, const std::string& name, Buffer<float>& b) {
        StateVector v{.name = name, .is_gradient = true};
        if (on_device_) v.on_device = &b;
        else v.values = b.view();
        list.push_back(v);
    }
    [[nodiscard]] Slot& slot(std::uint64_t gradient) { return slots_[gradient % slots_.size()]; }

    std::vector<Slot> slots_;
    bool on_device_ = false;
};

}  // namespace gx
