// ShardLayout: the elements of a flat vector that one rank updates, moved together.
#pragma once

#include <cstddef>  // size_t
#include <span>     // slices
#include <vector>   // runs

#include <gx/collective/exchange.hpp>  // ChunkRange
#include <gx/core/decl.hpp>            // GX_HEADER_ONLY
#include <gx/core/device.hpp>          // ParameterSlice
#include <gx/memory/kernels.hpp>       // CopyValues
#include <gx/memory/memory.hpp>        // ViewIn
#include <gx/memory/queue.hpp>         // launch

namespace gx::detail::trainer {

/// What lies both in the parts of a rank and in a parameter's slice. It is without the padding
/// between, one run of contiguous elements behind the other.
/// Order: that of the parts; within a part, of the slices.
class ShardLayout {
public:
    ShardLayout() = default;
    /// Shapes: parts and slices ascend in the flat vector.
    ShardLayout(std::span<const ChunkRange> parts, std::span<const ParameterSlice> slices);

    [[nodiscard]] std::size_t elements() const { return elements_; }
    /// The parameters in the shard; offsets count from its first element.
    [[nodiscard]] std::span<const ParameterSlice> slices() const { return slices_; }
    /// Whether it is of several runs, which have to be copied to lie together.
    [[nodiscard]] bool apart() const { return runs_.size() > 1; }

    /// The shard of a flat vector where it is of one run.
    template <class View>
    [[nodiscard]] View piece(View whole) const {
        return runs_.empty() ? whole.first(0) : whole.subspan(runs_[0].begin, runs_[0].count);
    }
    /// Copies the shard out of a flat vector.
    /// Cost: a kernel for each run.
    template <class Queue>
    void collect(Queue&& queue, ViewIn<const float, memory_of<Queue>> whole,
                 ViewIn<float, memory_of<Queue>> mine) const {
        std::size_t at = 0;
        for (const Run& run : runs_) {
            launch(queue, kernels::CopyValues<float>{}, whole.subspan(run.begin, run.count),
                   mine.subspan(at, run.count));
            at += run.count;
        }
    }
    /// Copies it back.
    template <class Queue>
    void spread(Queue&& queue, ViewIn<const float, memory_of<Queue>> mine,
                ViewIn<float, memory_of<Queue>> whole) const {
        std::size_t at = 0;
        for (const Run& run : runs_) {
            launch(queue, kernels::CopyValues<float>{}, mine.subspan(at, run.count),
                   whole.subspan(run.begin, run.count));
            at += run.count;
        }
    }

private:
    struct Run {
        std::size_t begin = 0, count = 0;
    };
    void add(const ChunkRange& part, const ParameterSlice& s);

    std::vector<Run> runs_{};
    std::vector<ParameterSlice> slices_{};
    std::size_t elements_ = 0;
};

}  // namespace gx::detail::trainer

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/rank/impl/shard_layout.ipp>
#endif
