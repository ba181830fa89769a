// Shuffling of an epoch, and the checks of its shards.
#pragma once

#include <cstdint>  // int64_t
#include <numeric>  // iota
#include <string>   // sentences

#include <gx/core/cold.hpp>     // GX_COLD
#include <gx/core/error.hpp>    // Error
#include <gx/core/rng.hpp>      // Rng
#include <gx/loader/order.hpp>  // the declarations

namespace gx {

namespace detail::loader {

GX_COLD GX_DECL void validate(std::int64_t samples, const LoaderOptions& o) {
    using std::to_string;
    if (o.batch < 1)
        throw Error("gx: loader: batch is " + to_string(o.batch) +
                    ": a step needs at least 1 image of each rank. Set a batch of 1 or more.");
    if (o.ranks < 1 || o.rank < 0 || o.rank >= o.ranks)
        throw Error("gx: loader: rank " + to_string(o.rank) + " of " + to_string(o.ranks) +
                    " ranks: ranks count from 0 and there is at least one.");
    if (samples < o.ranks)
        throw Error("gx: loader: " + to_string(o.ranks) + " ranks share " + to_string(samples) +
                    " samples: each needs at least one. Use fewer ranks or more data.");
    if (samples > std::int64_t{UINT32_MAX})
        throw Error("gx: loader: " + to_string(samples) +
                    " samples: at most 4294967295 are supported. Train on a part of them.");
}

}  // namespace detail::loader

GX_DECL EpochOrder::EpochOrder(std::int64_t samples, const LoaderOptions& o) : options_(o) {
    detail::loader::validate(samples, o);
    order_.resize(static_cast<std::size_t>(samples));
    std::iota(order_.begin(), order_.end(), 0u);
}

GX_DECL void EpochOrder::begin_epoch(int epoch, std::int64_t done) {
    GX_EXPECT(epoch >= 0, "epochs count from 0");
    GX_EXPECT(done >= 0 && done <= samples(), "an epoch begins at one of its samples");
    done_ = done;
    if (!options_.shuffle) return;
    const Rng order(options_.seed, "loader.order");
    order.at(static_cast<std::uint64_t>(epoch)).permutation_into(order_);
}

}  // namespace gx
