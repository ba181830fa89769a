// MemoryPlan: offsets of all activations, gradients and saved values in one arena.
#pragma once

#include <algorithm>  // sort, max
#include <cstdint>    // int64_t
#include <numeric>    // iota
#include <utility>    // move
#include <vector>     // blocks

#include <gx/core/cold.hpp>             // GX_COLD
#include <gx/core/contract.hpp>         // GX_EXPECT
#include <gx/core/device.hpp>           // Mode
#include <gx/model/backward_needs.hpp>  // gradient_tensors, kept
#include <gx/model/graph.hpp>           // Graph

namespace gx {

/// A piece of the arena, and the steps of time in which it is in use, both ends included.
/// A block of 0 bytes stands for none; its offset is -1.
struct MemoryBlock {
    std::int64_t offset = -1;  ///< bytes from the arena's begin, a multiple of 64
    std::int64_t bytes = 0;    ///< used; the next block begins at a multiple of 64 behind
    int first = 0, last = -1;
    [[nodiscard]] constexpr bool exists() const { return bytes > 0; }
    [[nodiscard]] constexpr bool shares_time_with(const MemoryBlock& o) const {
        return exists() && o.exists() && first <= o.last && o.first <= last;
    }
};

namespace detail::memory_plan {

inline constexpr std::int64_t alignment_bytes = 64;
constexpr std::int64_t aligned(std::int64_t n) {
    return (n + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
}
[[nodiscard]] inline std::int64_t live_bytes(const std::vector<MemoryBlock>& blocks, int time) {
    std::int64_t sum = 0;
    for (const MemoryBlock& b : blocks)
        if (b.exists() && b.first <= time && time <= b.last) sum += aligned(b.bytes);
    return sum;
}

/// Writes the offsets of blocks whose sizes and times are given.
class Placement {
public:
    /// Tries three orders, until one needs no more than must be, and keeps the smallest arena.
    GX_COLD explicit Placement(std::vector<MemoryBlock>& blocks) : blocks_(blocks) {
        for (const MemoryBlock& at : blocks_)
            lower_bound_bytes = std::max(lower_bound_bytes, live_bytes(blocks_, at.first));
        const auto by_time = +[](const MemoryBlock& b) { return -std::int64_t{b.first}; };
        const auto by_size = +[](const MemoryBlock& b) { return b.bytes; };
        const auto by_life = +[](const MemoryBlock& b) { return std::int64_t{b.last} - b.first; };
        std::vector<std::size_t> order(blocks_.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::vector<MemoryBlock> best;
        const auto attempt = [&](std::int64_t (*weight)(const MemoryBlock&)) {  // one sort for all
            if (!best.empty() && bytes == lower_bound_bytes) return;
            std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
                const MemoryBlock &x = blocks_[a], &y = blocks_[b];
                if (weight(x) != weight(y)) return weight(x) > weight(y);  // heaviest first
                return x.bytes != y.bytes ? x.bytes > y.bytes : a < b;
            });
            const std::int64_t end = place_in(order);
            if (!best.empty() && end >= bytes) return;
            bytes = end;
            best = blocks_;
        };
        attempt(by_time);
        attempt(by_size);
        attempt(by_life);
        blocks_ = std::move(best);
    }

    std::int64_t bytes = 0, lower_bound_bytes = 0;

private:
    /// Places the blocks in this order; returns the bytes of the arena.
    std::int64_t place_in(const std::vector<std::size_t>& order) {
        std::int64_t end = 0;
        std::vector<std::size_t> placed;  // by offset
        for (const std::size_t index : order) {
            MemoryBlock& block = blocks_[index];
            if (!block.exists()) continue;
            block.offset = tightest_gap(placed, block);
            const auto behind = std::find_if(placed.begin(), placed.end(), [&](std::size_t p) {
                return blocks_[p].offset > block.offset;
            });
            placed.insert(behind, index);
            end = std::max(end, block.offset + aligned(block.bytes));
        }
        return end;
    }

    /// Offset of the smallest gap that holds `block` between those placed that share its time; or
    /// the end of them all.
    [[nodiscard]] std::int64_t tightest_gap(const std::vector<std::size_t>& placed,
                                            const MemoryBlock& block) const {
        const std::int64_t wanted = aligned(block.bytes);
        std::int64_t best = -1, best_gap = 0, end = 0;
        for (const std::size_t p : placed) {
            const MemoryBlock& other = blocks_[p];
            if (!other.shares_time_with(block)) continue;
            const std::int64_t gap = other.offset - end;
            if (gap >= wanted && (best < 0 || gap < best_gap)) {
                best = end;
                best_gap = gap;
            }
            end = std::max(end, other.offset + aligned(other.bytes));
        }
        return best < 0 ? end : best;
    }

    std::vector<MemoryBlock>& blocks_;
};

}  // namespace detail::memory_plan

/// Places blocks of a device's own, as MemoryPlan does: writes their offsets, returns the bytes of
/// the arena.
[[nodiscard]] inline std::int64_t place_blocks(std::vector<MemoryBlock>& blocks) {
    return detail::memory_plan::Placement(blocks).bytes;
}

/// Lifetimes of all blocks over one step, and their offsets in the arena.
///
/// Time: operation i runs forward at time i; of n operations, i runs backward at 2n - 1 - i.
/// A tensor lives from its operation to its last reader, in backward too where an operation keeps
/// it (backward_needs.hpp); its gradient from the backward of its last reader, which writes it
/// first, to the backward of its own operation, which reads it. Every tensor has a block of its
/// own; a device may work in place, or keep less, and leave a block unused.
///
///     MemoryPlan plan(graph, batch, Mode::train, sizeof(float));
///     arena + plan.activation(op.output).offset
///
/// Shapes: an activation of T elements an image takes batch * T * element_bytes.
/// Order:  equal arguments give equal offsets.
/// Cost:   each block goes to the tightest gap, in order of time, of size or of life, whichever
///         needs least: exactly lower_bound_bytes on every network of gx/model, and below twice
///         that on any network tried. O(blocks^2); 4 ms for ResNet-152.
/// Source: Pisarchyk, Lee 2020, "Efficient memory management for deep neural net inference",
///         arXiv:2001.03288, section 5 (greedy by size with best fit).
class MemoryPlan {
public:
    static constexpr std::int64_t alignment_bytes = detail::memory_plan::alignment_bytes;

    GX_COLD MemoryPlan(const Graph& graph, int batch, Mode mode, std::int64_t element_bytes = 4)
        : tensors_(graph.tensors.size()), operations_(graph.ops.size()) {
        GX_EXPECT(batch > 0 && element_bytes > 0,
                  "a memory plan is for at least one image and one byte an element");
        blocks_.resize(2 * tensors_ + operations_);
        set_sizes(graph, batch, element_bytes, mode);
        set_lifetimes(graph, mode);
        const detail::memory_plan::Placement placed(blocks_);
        bytes = placed.bytes;
        lower_bound_bytes = placed.lower_bound_bytes;
    }

    std::int64_t bytes = 0;              ///< of the arena
    std::int64_t lower_bound_bytes = 0;  ///< most bytes that live at one time: no arena is smaller

    [[nodiscard]] const MemoryBlock& activation(int tensor) const { return blocks_[at(tensor)]; }
    [[nodiscard]] const MemoryBlock& gradient(int tensor) const {
        return blocks_[tensors_ + at(tensor)];
    }
    /// Values that operation `op` saves for its backward.
    [[nodiscard]] const MemoryBlock& notes(int op) const { return blocks_[2 * tensors_ + at(op)]; }
    /// All of them: activations, gradients, notes.
    [[nodiscard]] const std::vector<MemoryBlock>& blocks() const { return blocks_; }

    /// Bytes in use at a time, alignment included.
    [[nodiscard]] std::int64_t live_bytes(int time) const {
        return detail::memory_plan::live_bytes(blocks_, time);
    }

private:
    static std::size_t at(int index) { return static_cast<std::size_t>(index); }
    MemoryBlock& gradient_of(int tensor) { return blocks_[tensors_ + at(tensor)]; }

    GX_COLD void set_sizes(const Graph& graph, int batch, std::int64_t element_bytes, Mode mode) {
        const std::vector<std::uint8_t> has_gradient = gradient_tensors(graph);
        for (std::size_t t = 0; t < tensors_; ++t) {
            blocks_[t].bytes = graph.tensors[t].elements() * batch * element_bytes;
            if (mode == Mode::train && has_gradient[t] != 0)
                blocks_[tensors_ + t].bytes = blocks_[t].bytes;
        }
        if (mode == Mode::evaluate) return;
        for (std::size_t i = 0; i < operations_; ++i) {
            const Kept k = kept(graph, graph.ops[i]);
            blocks_[2 * tensors_ + i].bytes = k.bytes_per_image * batch + k.bytes_per_batch;
        }
    }

    GX_COLD void set_lifetimes(const Graph& graph, Mode mode) {
        const int n = static_cast<int>(operations_);
        for (int i = 0; i < n; ++i) {
            const Op& op = graph.ops[at(i)];
            const int backward = 2 * n - 1 - i;
            const Kept k = mode == Mode::train ? kept(graph, op) : Kept{};
            MemoryBlock& out = blocks_[at(op.output)];
            out.first = i;
            out.last = k.output ? backward : i;
            gradient_of(op.output).first = gradient_of(op.output).last = backward;
            for (const int input : op.inputs) {
                if (input < 0) continue;
                MemoryBlock& in = blocks_[at(input)];
                in.last = std::max(in.last, k.input ? backward : i);
                MemoryBlock& d = gradient_of(input);
                d.first = std::min(d.first, backward);
            }
            blocks_[2 * tensors_ + at(i)].first = i;
            blocks_[2 * tensors_ + at(i)].last = backward;
        }
    }

    std::size_t tensors_, operations_;
    std::vector<MemoryBlock> blocks_;
};

/// Whether two blocks of a plan share memory while both are in use; a sound plan has none.
[[nodiscard]] inline bool overlaps(const std::vector<MemoryBlock>& blocks) {
    for (std::size_t i = 0; i < blocks.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) {
            const MemoryBlock &a = blocks[i], &b = blocks[j];
            const bool share = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
            if (share && a.shares_time_with(b)) return true;
        }
    return false;
}
[[nodiscard]] inline bool overlaps(const MemoryPlan& plan) { return overlaps(plan.blocks()); }

}  // namespace gx
