// The shards of shard_fixtures.hpp as bytes, and what they hold.
#pragma once

#include <charconv>  // from_chars
#include <iterator>  // size
#include <string>    // bytes
#include <vector>    // samples

#include <loader/formats/samples.hpp>         // StoredSample
#include <loader/formats/shard_fixtures.hpp>  // the texts

namespace testing_support {

inline std::string bytes_of(std::string_view hexadecimal) {
    std::string bytes;
    for (const char* at = hexadecimal.data(); at != hexadecimal.data() + hexadecimal.size();) {
        unsigned value = 0;
        if (*at == 'z') {
            at = std::from_chars(at + 1, at + 20, value).ptr + 1;
            bytes.append(value, '\0');
        } else {
            std::from_chars(at, at + 2, value, 16);
            bytes.push_back(static_cast<char>(value));
            at += 2;
        }
    }
    return bytes;
}

inline std::vector<StoredSample> stored_samples() {
    std::vector<StoredSample> all;
    for (std::size_t i = 0; i < std::size(shards::images); ++i)
        all.push_back({bytes_of(shards::images[i]), shards::labels[i]});
    return all;
}

inline std::span<const std::uint8_t> as_bytes(const std::string& text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace testing_support
