// MicroBatches: one part.
#pragma once

#include <algorithm>  // min
#include <cstddef>    // size_t
#include <cstdint>    // uint64_t
#include <span>       // subspan

#include <gx/trainer/rank/micro_batches.hpp>

namespace gx::detail::trainer {

GX_DECL Batch MicroBatches::operator[](int index) const {
    const int first = index * most_, images = std::min(most_, whole_.count - first);
    const auto cut = [&]<class T>(std::span<T> all) {
        if (all.empty()) return all;
        const std::size_t each = all.size() / std::size_t(whole_.count);
        return all.subspan(std::size_t(first) * each, std::size_t(images) * each);
    };
    Batch part = whole_;
    part.images = cut(whole_.images);
    part.labels = cut(whole_.labels);
    part.pixels = cut(whole_.pixels);
    part.second_labels = cut(whole_.second_labels);
    part.count = images;
    part.draw = whole_.draw * std::uint64_t(in_full_) + std::uint64_t(index);
    return part;
}

}  // namespace gx::detail::trainer
