// gradients: per-lane gradient sums, added over lanes in order.
#pragma once

#include <algorithm>  // min
#include <cstddef>    // size_t
#include <cstdint>    // int64_t

#include <gx/core/cold.hpp>                 // GX_COLD
#include <gx/onednn/detail/memory.hpp>      // Memory
#include <gx/onednn/detail/owned_list.hpp>  // OwnedList
#include <gx/onednn/detail/program.hpp>     // Run, Step
#include <gx/onednn/detail/simd.hpp>        // Vector

namespace gx::onednn::detail {

/// Lane 0 writes straight into the gradient that the caller gave; the others have their own.
class LaneGradients {
public:
    GX_COLD void allocate(int lanes, std::int64_t floats) {
        for (int lane = 1; lane < lanes; ++lane) others_.add(floats);
    }
    [[nodiscard]] float* of(const Run& run, int lane) const {
        return lane == 0 ? run.gradients.data() : others_[lane - 1].data();
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

/// Adds the lanes' gradients [offset, offset + floats), every lane a share of the range.
class AddLanesStep : public Step {
public:
    AddLanesStep(LaneGradients& gradients, std::size_t offset, std::int64_t floats)
        : gradients_(gradients), offset_(offset), floats_(floats) {}
    void run(const Run& run, const Place& at) override {
        const std::int64_t grain = 64, grains = (floats_ + grain - 1) / grain;
        const std::int64_t begin = std::min(floats_, grains * at.lane / run.lanes * grain);
        const std::int64_t end = std::min(floats_, grains * (at.lane + 1) / run.lanes * grain);
        const auto from = static_cast<std::int64_t>(offset_) + begin;
        for (int lane = 1; lane < run.lanes; ++lane)
            if (run.lane_count(lane) > 0)
                run_kernel<Accumulate>(Accumulate::Args{gradients_.of(run, lane) + from,
                                                        gradients_.of(run, 0) + from, end - begin});
    }

private:
    LaneGradients& gradients_;
    std::size_t offset_;
    std::int64_t floats_;
};

}  // namespace gx::onednn::detail
