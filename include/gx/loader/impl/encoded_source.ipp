// Places and hashes of encoded samples.
#pragma once

#include <fmt/core.h>  // sentences

#include <gx/core/hash.hpp>              // mix64, hash_name
#include <gx/loader/encoded_source.hpp>  // the declarations

namespace gx {

GX_DECL std::string to_string(const SamplePlace& place) {
    return place.whole_file ? fmt::format("'{}'", place.file)
                            : fmt::format("'{}', record at byte {}", place.file, place.offset);
}

GX_DECL std::uint64_t hash_entry(std::uint64_t hash, const EncodedEntry& entry) {
    const std::string_view file = entry.file;
    const auto add = [&](std::uint64_t x) { hash = mix64(hash ^ x); };
    add(hash_name(entry.name));
    add(hash_name(file.substr(file.rfind('/') + 1)));
    add(entry.offset);
    add(entry.bytes);
    add(static_cast<std::uint64_t>(entry.label));
    return hash;
}

}  // namespace gx
