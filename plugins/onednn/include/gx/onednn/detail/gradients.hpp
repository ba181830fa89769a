// gradients: per-lane gradient sums, added over lanes in order.
#pragma once

#include <algorithm>  // min
#include <cstddef>    // size_t
#include <cstdint>    // int64_t, uintptr_t

#include <gx/core/cold.hpp>                 // GX_COLD
#include <gx/onednn/detail/memory.hpp>      // Memory
#include <gx/onednn/detail/owned_list.hpp>  // OwnedList
#include <gx/onednn/detail/program.hpp>     // Run, Step
#include <gx/onednn/detail/simd.hpp>        // Vector

namespace gx::onednn::detail {

/// Where the gradient of a parameter begins: in the flat gradient, and in a lane's own memory.
struct GradientPlace {
    std::size_t flat = 0;
    std::int64_t in_lane = 0;
};

/// Lane 0 writes straight into the gradient that the caller gave; the others have memory of their
/// own, for the parameters whose lanes are not added yet.
class LaneGradients {
public:
    GX_COLD void allocate(int lanes, std::int64_t floats) {
        for (int lane = 1; lane < lanes; ++lane) others_.add(floats);
    }
    [[nodiscard]] float* of(const Run& run, int lane, GradientPlace place) const {
        return lane == 0 ? run.gradients.data() + place.flat
                         : others_[lane - 1].data() + place.in_lane;
    }
    /// Whether a lane's gradients begin at cache lines.
    [[nodiscard]] static bool aligned(const Run& run, int lane) {
        return lane > 0 || reinterpret_cast<std::uintptr_t>(run.gradients.data()) % 64 == 0;
    }
    /// Of all lanes.
    [[nodiscard]] std::int64_t floats() const {
        return others_.count() > 0 ? others_.count() * others_[0].size() : 0;
    }

private:
    OwnedList<Memory> others_{};
};

/// to += from.
struct Accumulate {
    struct Args {
        const float* from;
        float* to;
        std::int64_t floats;
    };
    template <int B>
    GX_ONEDNN_INLINE static void run(const Args& a) {
        using V = typename Vector<B>::type;
        std::int64_t i = 0;
        for (; i + B <= a.floats; i += B)
            *reinterpret_cast<V*>(a.to + i) += *reinterpret_cast<const V*>(a.from + i);
        for (; i < a.floats; ++i) a.to[i] += a.from[i];
    }
};

/// Adds the lanes' gradients of `floats` numbers, every lane a share of the range.
class AddLanesStep : public Step {
public:
    AddLanesStep(LaneGradients& gradients, GradientPlace place, std::int64_t floats)
        : gradients_(gradients), place_(place), floats_(floats) {}
    void run(const Run& run, const Place& at) override {
        const std::int64_t grain = 64, grains = (floats_ + grain - 1) / grain;
        const std::int64_t begin = std::min(floats_, grains * at.lane / run.lanes * grain);
        const std::int64_t end = std::min(floats_, grains * (at.lane + 1) / run.lanes * grain);
        for (int lane = 1; lane < run.lanes; ++lane)
            if (run.lane_count(lane) > 0)
                run_kernel<Accumulate>(Accumulate::Args{gradients_.of(run, lane, place_) + begin,
                                                        gradients_.of(run, 0, place_) + begin,
                                                        end - begin});
    }

private:
    LaneGradients& gradients_;
    GradientPlace place_;
    std::int64_t floats_;
};

}  // namespace gx::onednn::detail
