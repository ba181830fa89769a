// ErrorFeedbackState: residuals of error feedback, one for each gradient in flight.
#pragma once

#include <cstddef>  // size_t
#include <cstdint>  // uint64_t
#include <span>     // views
#include <string>   // names
#include <utility>  // swap
#include <vector>   // residuals

#include <gx/core/contract.hpp>    // GX_EXPECT
#include <gx/reducer/concept.hpp>  // StateList, ReducePlan, Bucket

namespace gx {

/// One rank's residual of a whole gradient, in the gradient's layout, for a reducer that sends less
/// than it is given.
///
/// With s gradients in flight there are s residuals, and gradient g works on residual g mod s: it
/// need not wait for the fate of the one before it. A gradient's residual takes effect when it is
/// settled as applied, and is dropped, bit for bit, when its step is skipped.
///
///     applied gradients + residuals = gradients of the steps that are not skipped
///
/// Units: of the gradient without its loss scale, which may change from step to step.
/// Cost:  2 s floats an element; no copies.
class ErrorFeedbackState {
public:
    /// The residual that a bucket starts from, and where it writes what it leaves.
    struct View {
        std::span<const float> before;
        std::span<float> after;
    };

    void reserve(const ReducePlan& plan) {
        GX_EXPECT(plan.in_flight >= 1, "at least one gradient is in flight");
        slots_.assign(static_cast<std::size_t>(plan.in_flight), {});
        for (std::size_t i = 0; i < slots_.size(); ++i) {
            slots_[i].kept.assign(static_cast<std::size_t>(plan.elements), 0.0f);
            slots_[i].next = slots_[i].kept;
            slots_[i].name = "residual " + std::to_string(i);
            slots_[i].next_name = slots_[i].name + ", in flight";
        }
    }

    /// Errors: a bucket outside of the reserved gradient breaks the contract.
    [[nodiscard]] View of(const Bucket& bucket) {
        Slot& s = slot(bucket.gradient);
        const auto offset = static_cast<std::size_t>(bucket.offset);
        GX_EXPECT(offset + bucket.size() <= s.kept.size(), "a bucket beyond the reserved gradient");
        return {std::span<const float>(s.kept).subspan(offset, bucket.size()),
                std::span(s.next).subspan(offset, bucket.size())};
    }

    /// Reducer's settle().
    void settle(std::uint64_t gradient, bool applied) {
        if (applied) std::swap(slot(gradient).kept, slot(gradient).next);
    }

    /// Reducer's state(): each residual, and with several also what gradients in flight leave.
    [[nodiscard]] StateList state() {
        StateList list;
        for (Slot& s : slots_) {
            list.push_back({.name = s.name, .values = s.kept, .is_gradient = true});
            if (slots_.size() > 1)
                list.push_back({.name = s.next_name, .values = s.next, .is_gradient = true});
        }
        return list;
    }

    /// The residual that gradient `gradient` starts from.
    [[nodiscard]] std::span<const float> kept(std::uint64_t gradient) const {
        return slots_[gradient % slots_.size()].kept;
    }

private:
    struct Slot {
        std::vector<float> kept, next;  ///< next: if the gradient in flight is applied
        std::string name, next_name;
    };
    [[nodiscard]] Slot& slot(std::uint64_t gradient) { return slots_[gradient % slots_.size()]; }

    std::vector<Slot> slots_;
};

}  // namespace gx
