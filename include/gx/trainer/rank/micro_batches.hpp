// MicroBatches: the parts of a rank's batch whose gradients are summed before one reduction.
#pragma once

#include <algorithm>  // max

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/core/decl.hpp>      // GX_HEADER_ONLY
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
    [[nodiscard]] Batch operator[](int index) const;

private:
    Batch whole_;
    int most_, in_full_;
};

}  // namespace gx::detail::trainer

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/rank/impl/micro_batches.ipp>
#endif
