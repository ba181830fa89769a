// BucketSlices: the parameters in a flat vector and in each of its buckets.
#pragma once

#include <cstdint>  // int64_t
#include <span>     // parameters
#include <vector>   // buckets

#include <gx/core/decl.hpp>    // GX_DECL
#include <gx/core/device.hpp>  // ParameterSlice

namespace gx::detail::reducer {

/// The parameters in a flat vector and in each of its buckets, by ascending offset.
class BucketSlices {
public:
    GX_DECL BucketSlices(std::span<const ParameterSlice> slices, std::int64_t elements,
                         std::int64_t bucket_elements);
    BucketSlices(const BucketSlices&) = delete;
    BucketSlices& operator=(const BucketSlices&) = delete;

    [[nodiscard]] std::span<const ParameterSlice> all() const { return all_; }
    /// Buckets count from the end of the vector.
    [[nodiscard]] std::span<const ParameterSlice> of(int bucket) const {
        return of_[static_cast<std::size_t>(bucket)];
    }

private:
    std::vector<ParameterSlice> all_;
    std::vector<std::span<const ParameterSlice>> of_{};
};

}  // namespace gx::detail::reducer

#if defined(GX_HEADER_ONLY)
#include <gx/reducer/impl/bucket_slices.ipp>
#endif
