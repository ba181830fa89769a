// MicroBatches: the parts of a rank's batch whose gradients are summed before one reduction.
#pragma once

#include <algorithm>  // max, min
#include <cstdint>    // uint64_t
#include <span>       // subspan

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/core/device.hpp>    // Batch

namespace gx::detail::trainer {

/// A batch cut into parts of `most` images in its own order; the last has the rest. An empty batch
/// is one empty part, since every rank contributes a gradient to each step.
class MicroBatches {
public:
    /// `in_full`: parts of a full batch.
    MicroBatches(const Batch& whole, int most, int in_full)
        : whole_(whole), most_(most), in_full_(in_full) {
        GX_EXPECT(most_ > 0 && count() <= in_full_, "a batch has at most the parts of a full one");
    }

    [[nodiscard]] int count() const { return std::max(1, (whole_.count + most_ - 1) / most_); }
    /// Part `index`, counted from 0, with a draw of its own.
    [[nodiscard]] Batch operator[](int index) const {
        const int first = index * most_, images = std::min(most_, whole_.count - first);
        const auto cut = [&]<class T>(std::span<T> all) {
            if (all.empty()) return all;
            const std::size_t each = all.size() / std::size_t(whole_.count);
            return all.subspan(std::size_t(first) * each, std::size_t(images) * each);
        };
        Batch part = whole_;
        part.images = cut(whole_.images);
        part.labels = cut(whole_.labels);
        part.pixels = cut(whole_.pixels);
        part.second_labels = cut(whole_.second_labels);
        part.count = images;
        part.draw = whole_.draw * std::uint64_t(in_full_) + std::uint64_t(index);
        return part;
    }

private:
    Batch whole_;
    int most_, in_full_;
};

}  // namespace gx::detail::trainer
