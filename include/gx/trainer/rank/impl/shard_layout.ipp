// ShardLayout: the runs of a shard.
#pragma once

#include <algorithm>  // max, min
#include <cstddef>    // size_t
#include <span>       // slices

#include <gx/trainer/rank/shard_layout.hpp>

namespace gx::detail::trainer {

GX_DECL ShardLayout::ShardLayout(std::span<const ChunkRange> parts,
                                 std::span<const ParameterSlice> slices) {
    for (const ChunkRange& part : parts)
        for (const ParameterSlice& s : slices) add(part, s);
}

GX_DECL void ShardLayout::add(const ChunkRange& part, const ParameterSlice& s) {
    const std::size_t begin = std::max(s.offset, static_cast<std::size_t>(part.begin));
    const std::size_t end = std::min(s.offset + s.count, static_cast<std::size_t>(part.end));
    if (end <= begin) return;
    const std::size_t count = end - begin;
    if (!runs_.empty() && runs_.back().begin + runs_.back().count == begin)
        runs_.back().count += count;
    else runs_.push_back({begin, count});
    slices_.push_back({elements_, count, s.parameter});
    elements_ += count;
}

}  // namespace gx::detail::trainer
