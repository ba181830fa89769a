// epoch(loader, e): batches of one epoch as a range, to filter, zip and take.
#pragma once

#include <cstddef>  // size_t

#include <range/v3/view/generate_n.hpp>  // generate_n

#include <gx/loader/concept.hpp>  // Loader, RankBatch

namespace gx {

/// Returns the batches of an epoch as a single-pass range.
///
///     for (const RankBatch& step : epoch(loader, 0)) ...
///     for (const auto& [number, step] : ranges::views::enumerate(epoch(loader, 0))) ...
///
/// Each batch is drawn when it is reached and stays valid as the loader says. The loader outlives
/// the range. Link gx::ranges; no other header of gx includes range-v3.
template <Loader L>
[[nodiscard]] auto epoch(L& loader, int epoch) {
    loader.begin_epoch(epoch);
    return ranges::views::generate_n([&loader] { return loader.next(); },
                                     static_cast<std::size_t>(loader.steps_per_epoch()));
}

}  // namespace gx
