// What a loader reads of a source.
#pragma once

#include <algorithm>  // copy_n

#include <gx/core/error.hpp>        // Error
#include <gx/loader/in_memory.hpp>  // the declarations

namespace gx::detail::loader {

GX_DECL SourceInfo info_at(const SourceRef& source, int image_side) {
    SourceInfo info = source.info();
    if (image_side > 0 && source.has_sizes()) info.shape.height = info.shape.width = image_side;
    return info;
}

GX_DECL void take_values(const SourceInfo& info, const Sample& sample, bool plain, float* to) {
    if (!plain)
        throw Error("gx: data set '" + info.name +
                    "' holds numbers, not pixels: they can't be resized, augmented or sent to the "
                    "device as pixels. Use InMemory<> without 'pixels', in one phase.");
    std::copy_n(sample.values, sample.shape.elements(), to);
}

}  // namespace gx::detail::loader

#if defined(GX_COMPILED)
template class gx::InMemory<>;
#endif
