// The parameters of each bucket.
#pragma once

#include <algorithm>  // max, sort

#include <gx/reducer/bucket.hpp>         // Bucket
#include <gx/reducer/bucket_slices.hpp>  // the declarations

namespace gx::detail::reducer {

GX_DECL BucketSlices::BucketSlices(std::span<const ParameterSlice> slices, std::int64_t elements,
                                   std::int64_t bucket_elements)
    : all_(slices.begin(), slices.end()) {
    std::ranges::sort(all_, {}, &ParameterSlice::offset);
    for (std::int64_t end = elements; end > 0; end -= bucket_elements)
        of_.push_back(
            Bucket::slices_in(all_, std::max(std::int64_t{0}, end - bucket_elements), end));
}

}  // namespace gx::detail::reducer
