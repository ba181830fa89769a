// Bucket, ReducePlan: what a reducer works on.
#pragma once

#include <concepts>  // convertible_to
#include <cstddef>   // size_t
#include <cstdint>   // int64_t, uint64_t
#include <span>      // values

#include <gx/core/device.hpp>     // ParameterSlice
#include <gx/core/transport.hpp>  // Placement
#include <gx/memory/buffer.hpp>   // MemoryResource
#include <gx/memory/memory.hpp>   // ViewIn, ScalarIn
#include <gx/memory/queue.hpp>    // Link

namespace gx {

/// Argument of reserve(), which is called once, before the first reduction.
struct ReducePlan {
    Placement placement{};
    std::int64_t elements = 0;         ///< of a whole gradient
    std::int64_t bucket_elements = 0;  ///< of its longest bucket
    int in_flight = 1;                 ///< gradients at once: staleness + 1
    std::uint64_t seed = 0;            ///< of random choices, equal on all ranks
    /// Of a whole gradient, ascending; they outlive the reducer. Empty where none are known.
    std::span<const ParameterSlice> slices{};
    MemoryResource* memory = nullptr;  ///< for the reducer's buffers; nullptr: the host's memory

    [[nodiscard]] bool on_device() const {
        return memory != nullptr && memory->memory() != &memory_id<HostMemory>;
    }
    /// One gradient of one bucket at a time.
    [[nodiscard]] static constexpr ReducePlan whole(Placement placement, std::int64_t elements) {
        return {.placement = placement, .elements = elements, .bucket_elements = elements};
    }
};

/// Contiguous part of a gradient in memory M that is reduced at once. On the host it is a range of
/// its values.
template <class M>
struct BucketIn {
    ViewIn<float, M> values{};  ///< the gradient times loss_scale; the reducer's result
    int index = 0;  ///< in the order of reduction; a Pipeline begins at the gradient's end
    int count = 1;  ///< buckets of this gradient
    std::int64_t offset = 0;                     ///< of the first value in the flat gradient
    std::uint64_t gradient = 0;                  ///< counted from 0
    ScalarIn<float, M> loss_scale = no_scale();  ///< equal on all ranks; on hosts 1 if none
    std::span<const ParameterSlice> slices{};    ///< that have values here; offsets in the gradient

    constexpr BucketIn() = default;
    /// A gradient of one bucket.
    template <class V>
        requires std::convertible_to<V, ViewIn<float, M>>
    constexpr BucketIn(V&& all) : values(all) {}  // NOLINT(google-explicit-constructor)

    [[nodiscard]] constexpr std::size_t size() const { return values.size(); }
    [[nodiscard]] constexpr bool empty() const { return values.empty(); }
    [[nodiscard]] constexpr auto begin() const
        requires std::same_as<M, HostMemory>
    {
        return values.begin();
    }
    [[nodiscard]] constexpr auto end() const
        requires std::same_as<M, HostMemory>
    {
        return values.end();
    }
    [[nodiscard]] constexpr float* data() const
        requires std::same_as<M, HostMemory>
    {
        return values.data();
    }
    [[nodiscard]] constexpr float& operator[](std::size_t i) const
        requires std::same_as<M, HostMemory>
    {
        return values[i];
    }

    /// The same bucket with `count` of its values from `first` on.
    [[nodiscard]] constexpr BucketIn part(std::size_t first, std::size_t length) const {
        BucketIn b = *this;
        b.values = values.subspan(first, length);
        b.offset += static_cast<std::int64_t>(first);
        b.slices = slices_in(slices, b.offset, b.offset + static_cast<std::int64_t>(length));
        return b;
    }

    /// Those of `slices`, which ascend, that have elements in [begin, end).
    [[nodiscard]] static constexpr std::span<const ParameterSlice> slices_in(
        std::span<const ParameterSlice> slices, std::int64_t begin, std::int64_t end) {
        std::size_t first = 0, last = slices.size();
        const auto from = static_cast<std::size_t>(begin), to = static_cast<std::size_t>(end);
        while (first < last && slices[first].offset + slices[first].count <= from) ++first;
        while (last > first && slices[last - 1].offset >= to) --last;
        return slices.subspan(first, last - first);
    }

private:
    static constexpr ScalarIn<float, M> no_scale() {
        if constexpr (std::same_as<M, HostMemory>) return 1;
        else return {};
    }
};

using Bucket = BucketIn<HostMemory>;
/// The bucket that a reducer gets over transport T.
template <class T>
using BucketOn = BucketIn<memory_of<T>>;

}  // namespace gx
