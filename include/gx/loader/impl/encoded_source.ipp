// Places of encoded samples.
#pragma once

#include <fmt/core.h>  // sentences

#include <gx/loader/encoded_source.hpp>  // the declarations

namespace gx {

GX_DECL std::string to_string(const SamplePlace& place) {
    return place.whole_file ? fmt::format("'{}'", place.file)
                            : fmt::format("'{}', record at byte {}", place.file, place.offset);
}

}  // namespace gx
