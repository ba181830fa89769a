// VectorKernels: time of a GPU's kernels on whole vectors: casts, scalings, sums, selections.
#pragma once

#include <gx/core/contract.hpp>     // GX_EXPECT
#include <gx/core/units.hpp>        // Bytes, Nanoseconds
#include <gx/sim/hardware/gpu.hpp>  // GpuSpec

namespace gx::sim {

/// Kernels on the memory roofline, by the bytes that they read and write (traffic_bytes):
///
///     time = launch + bytes / (bandwidth * efficiency)        0 bytes: 0, no kernel
///
/// with the efficiency of fp32 kernels, as an optimizer's update. `launch` is GpuSpec's, fitted as
/// the gap between kernels of a model: an upper bound for a library that launches its own, which
/// weighs with many small buckets. What Framework adds to a kernel is not charged.
///
/// Operations take no time of their own: casts, sums and updates do at most 2 per byte (Adam's,
/// with its root and division, among them), and each GPU of the catalog does 9 or more while its
/// memory moves a byte (tested), a multiply-add counted as two, so that of others there are 4.5.
/// Quantized's rounding does more, some 25 for Philox's word and a division in double per value: of
/// it this is a lower bound.
///
/// Not modelled: such a kernel and the model's, which run at the same time on two streams, share
/// bandwidth and multiprocessors. ClusterOptions::overlap_slowdown slows the model's kernels beside
/// a reduction by one fitted share, which contains it; a model of each pair would count it twice.
class VectorKernels {
public:
    constexpr explicit VectorKernels(const GpuSpec& gpu)
        : launch_(gpu.launch), bandwidth_(gpu.memory_bandwidth * gpu.efficiency_fp32.memory) {}

    [[nodiscard]] constexpr Nanoseconds time(Bytes traffic) const {
        GX_EXPECT(traffic.count >= 0, "a kernel moves at least 0 bytes");
        return traffic.count == 0 ? Nanoseconds(0) : launch_ + traffic / bandwidth_;
    }
    /// Highest rate of a message that the collective's own kernel adds to a vector. It adds while
    /// the message arrives, slice by slice: of each byte the received one and the sum are read and
    /// the sum is written. A copy moves less and is taken to be as fast.
    /// Source: NCCL's primitives recvReduceSend and recvReduceCopySend, src/device/prims_simple.h.
    [[nodiscard]] constexpr BytesPerSecond fused_rate() const { return bandwidth_ / 3.0; }

private:
    Nanoseconds launch_;
    BytesPerSecond bandwidth_;
};

}  // namespace gx::sim
