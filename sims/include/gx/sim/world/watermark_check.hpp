// WatermarkCheck: detects gradients that a device reports as ready and then changes.
#pragma once

#include <algorithm>  // copy, min
#include <cstddef>    // size_t
#include <cstring>    // memcmp
#include <span>       // gradients
#include <vector>     // what was reported

#include <gx/core/cold.hpp>    // GX_COLD
#include <gx/core/decl.hpp>    // GX_DECL
#include <gx/core/device.hpp>  // ParameterSlice
#include <gx/core/error.hpp>   // Error

namespace gx {
struct Graph;
}  // namespace gx

namespace gx::sim {

/// Compares gradients as they were when a watermark reported them with those after backward.
///
///     check.begin(gradients);
///     inner.backward(scale, gradients, [&](std::size_t w) { check.reported(w); });
///     check.expect_final(graph, inner.slices());
///
/// A watermark that comes late is right, and so is one that repeats or rises: it adds nothing.
/// Cost: a copy and a comparison of the gradient for each backward; allocates in the first.
class WatermarkCheck {
public:
    void begin(std::span<const float> gradients);
    void reported(std::size_t watermark) {
        if (watermark >= end_) return;
        std::copy(gradients_.begin() + static_cast<std::ptrdiff_t>(watermark),
                  gradients_.begin() + static_cast<std::ptrdiff_t>(end_),
                  seen_.begin() + static_cast<std::ptrdiff_t>(watermark));
        end_ = watermark;
        marks_.push_back(watermark);
    }
    /// Errors: gx::Error naming the layer and the parameter of the last gradient that changed
    ///         after it was reported, and the watermark that reported it.
    void expect_final(const Graph& graph, std::span<const ParameterSlice> slices) const {
        const std::size_t count = seen_.size() - end_;
        if (count == 0 || std::memcmp(&seen_[end_], &gradients_[end_], count * sizeof(float)) == 0)
            return;
        std::size_t i = seen_.size();
        do --i;
        while (std::memcmp(&seen_[i], &gradients_[i], sizeof(float)) == 0);
        fail(i, graph, slices);
    }

private:
    GX_COLD [[noreturn]] void fail(std::size_t element, const Graph& graph,
                                   std::span<const ParameterSlice> slices) const;

    std::span<const float> gradients_{};
    std::vector<float> seen_{};         // from end_ on: as reported
    std::size_t end_ = 0;               // the lowest watermark
    std::vector<std::size_t> marks_{};  // falling
};

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/world/impl/watermark_check.ipp>
#endif
