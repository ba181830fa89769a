// blocked_strides: where a number of an array lies among its blocks.
#pragma once

#include <array>    // positions
#include <cstddef>  // size_t
#include <cstdint>  // int64_t

namespace gx::onednn::detail {

/// The strides of an array in memory, counted in numbers. Rank 0: it has none.
/// Source: oneDNN 2.6 developer guide, "Memory formats": strides count blocks, inner blocks are
///         laid out in their order, the last one fastest.
struct BlockedStrides {
    static constexpr int rank_max = 12;  ///< DNNL_MAX_NDIMS
    int rank = 0, inner_count = 0;
    bool bf16 = false;  ///< what its numbers are; fp32 otherwise
    std::int64_t offset = 0;
    std::int64_t dims[rank_max] = {}, strides[rank_max] = {};
    std::int64_t inner_sizes[rank_max] = {}, inner_dims[rank_max] = {};
};

/// Where `position` lies.
[[nodiscard]] inline std::int64_t element_offset(const BlockedStrides& b,
                                                 std::array<std::int64_t, 5> position) {
    std::int64_t offset = b.offset, stride = 1;
    for (int k = b.inner_count - 1; k >= 0; --k) {
        auto& p = position[static_cast<std::size_t>(b.inner_dims[k])];
        offset += p % b.inner_sizes[k] * stride;
        p /= b.inner_sizes[k];
        stride *= b.inner_sizes[k];
    }
    for (int i = 0; i < b.rank; ++i) offset += position[static_cast<std::size_t>(i)] * b.strides[i];
    return offset;
}

}  // namespace gx::onednn::detail
