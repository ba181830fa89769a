// UpdateTables: what the kernels of an optimizer read beside its vectors, on the device.
#pragma once

#include <cstddef>  // size_t
#include <cstdint>  // int64_t
#include <span>     // slices
#include <vector>   // what was copied

#include <gx/core/device.hpp>       // ParameterSlice
#include <gx/cuda/device_span.hpp>  // DeviceSpan
#include <gx/cuda/kernels.hpp>      // UpdatePiece, UpdateStep
#include <gx/cuda/memory.hpp>       // GpuMemory
#include <gx/memory/buffer.hpp>     // Buffer

namespace gx::cuda {

class Queue;

/// Pieces of the slices and a number for each parameter, of the optimizer that updated last.
/// Cost: prepare() allocates and waits where slices or numbers are others than before, as in a
///       run's first update, and else compares them.
class UpdateTables {
public:
    /// `decays`: the weight decay of each parameter.
    void prepare(Queue& queue, std::span<const ParameterSlice> slices,
                 std::span<const float> decays);
    /// `adapts`: not 0 where a parameter has a trust ratio.
    void prepare_norms(Queue& queue, std::span<const ParameterSlice> slices,
                       std::span<const char> adapts);
    /// Behind one of these, where norms of gradients are asked for: as many sums, at least.
    void prepare_sums(Queue& queue, std::int64_t count);

    [[nodiscard]] DeviceSpan<const UpdatePiece> pieces() { return open(pieces_); }
    [[nodiscard]] DeviceSpan<UpdateStep> step() { return open(step_); }
    /// Of each parameter; of prepare_norms(): for lars_rates to fill, and so are the rates.
    [[nodiscard]] DeviceSpan<float> decays() { return open(decays_); }
    [[nodiscard]] DeviceSpan<float> rates() { return open(rates_); }
    [[nodiscard]] DeviceSpan<const Flag> adapts() { return open(adapts_); }
    /// Squared norms of parameters, then those of gradients or updates.
    [[nodiscard]] DeviceSpan<unsigned long long> words() { return open(words_); }
    /// Of prepare_sums().
    [[nodiscard]] DeviceSpan<unsigned long long> sums() { return open(sums_); }
    /// The first of them.
    [[nodiscard]] DeviceSpan<unsigned long long> sum() { return sums().subspan(0, norm_words); }

private:
    template <class T>
    [[nodiscard]] static DeviceSpan<T> open(Buffer<T>& b) {
        return GpuMemory::open(b.template view<GpuMemory>());
    }
    [[nodiscard]] bool holds(std::span<const ParameterSlice> slices) const;
    void cut(Queue& queue, std::span<const ParameterSlice> slices, std::size_t parameters);

    Buffer<UpdatePiece> pieces_{};
    Buffer<UpdateStep> step_{};
    Buffer<float> decays_{}, rates_{};
    Buffer<Flag> adapts_{};
    Buffer<unsigned long long> words_{}, sums_{};
    std::vector<ParameterSlice> slices_{};  ///< as they were copied, and so below
    std::vector<float> of_decays_{};
    std::vector<char> of_adapts_{};
};

}  // namespace gx::cuda
