// The table of normalised pixel values.
#pragma once

#include <cstddef>  // size_t
#include <vector>   // the table

#include <gx/loader/in_memory.hpp>  // the declarations

namespace gx::detail::loader {

GX_DECL std::vector<float> normalised_values(const SourceInfo& info) {
    std::vector<float> table;
    for (std::size_t c = 0; c < info.mean.size(); ++c)
        for (int pixel = 0; pixel < 256; ++pixel)
            table.push_back(static_cast<float>((pixel / 255.0 - double{info.mean[c]}) /
                                               double{info.deviation[c]}));
    return table;
}

}  // namespace gx::detail::loader
