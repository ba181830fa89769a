// samples_of: everything that an encoded source holds, for comparisons.
#pragma once

#include <numeric>  // iota
#include <string>   // bytes
#include <vector>   // samples

#include <gx/loader/encoded_source.hpp>  // EncodedSource

namespace testing_support {

struct StoredSample {
    std::string bytes{};
    int label = 0;
    bool operator==(const StoredSample&) const = default;
    friend std::ostream& operator<<(std::ostream& out, const StoredSample& s) {
        return out << s.label << " '" << s.bytes << "'";
    }
};

inline StoredSample read_one(gx::EncodedReader& reader, std::uint32_t index) {
    std::vector<gx::EncodedSample> out(1);
    reader.read(std::vector{index}, out);
    return {{out[0].bytes.begin(), out[0].bytes.end()}, out[0].label};
}

/// By reads of `at_once` samples each.
template <gx::EncodedSource S>
std::vector<StoredSample> samples_of(const S& source, std::size_t at_once = 3) {
    std::vector<std::uint32_t> all(std::size_t(source.info().count));
    std::iota(all.begin(), all.end(), 0u);
    std::vector<StoredSample> found;
    const auto reader = source.open();
    for (std::size_t i = 0; i < all.size(); i += at_once) {
        const auto some = std::span(all).subspan(i, std::min(at_once, all.size() - i));
        std::vector<gx::EncodedSample> out(some.size());
        reader->read(some, out);
        for (const auto& s : out) found.push_back({{s.bytes.begin(), s.bytes.end()}, s.label});
    }
    return found;
}

}  // namespace testing_support
