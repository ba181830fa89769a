// EpochOrder: which samples each rank sees in each step of an epoch.
#pragma once

#include <algorithm>  // min
#include <cstdint>    // uint32_t
#include <numeric>    // iota
#include <span>       // shares
#include <string>     // sentences
#include <vector>     // the order

#include <gx/core/cold.hpp>       // GX_COLD
#include <gx/core/contract.hpp>   // GX_EXPECT
#include <gx/core/error.hpp>      // Error
#include <gx/core/rng.hpp>        // Rng
#include <gx/loader/concept.hpp>  // LoaderOptions

namespace gx {

/// The epoch's samples in random order, cut into steps of ranks x batch; each step is cut into one
/// run a rank, of sizes that differ by at most one, longer runs first. The last step has the rest.
///
/// Every sample comes once an epoch, for any number of ranks. A step's set of samples depends on
/// ranks x batch and not on how it is made up.
///
/// Errors: gx::Error for a batch or a data set without images, a rank outside of 0 ... ranks - 1,
///         or more ranks than samples.
/// Order:  a function of (seed, epoch, sample count); the same on every rank, and computed by
///         each for itself.
/// Cost:   one random block a sample and epoch, about 10 ns; no allocation after construction.
class EpochOrder {
public:
    EpochOrder(std::int64_t samples, const LoaderOptions& o) : options_(o) {
        validate(samples, o);
        order_.resize(static_cast<std::size_t>(samples));
        std::iota(order_.begin(), order_.end(), 0u);
    }

    void begin_epoch(int epoch) {
        GX_EXPECT(epoch >= 0, "epochs count from 0");
        if (!options_.shuffle) return;
        const Rng order(options_.seed, "loader.order");
        order.at(static_cast<std::uint64_t>(epoch)).permutation_into(order_);
    }

    [[nodiscard]] std::int64_t samples() const { return std::ssize(order_); }
    [[nodiscard]] std::int64_t global_batch() const {
        return std::int64_t{options_.ranks} * options_.batch;
    }
    [[nodiscard]] std::int64_t steps() const {
        return (samples() + global_batch() - 1) / global_batch();
    }

    /// All samples of `step`, over all ranks.
    [[nodiscard]] std::span<const std::uint32_t> step(std::int64_t step) const {
        GX_EXPECT(step >= 0 && step < steps(),
                  "an epoch has steps_per_epoch() steps: begin the next one");
        const std::int64_t first = step * global_batch();
        const std::int64_t count = std::min(global_batch(), samples() - first);
        return std::span(order_).subspan(static_cast<std::size_t>(first),
                                         static_cast<std::size_t>(count));
    }

    /// This rank's samples of `step`; none when the step has fewer images than ranks before it.
    [[nodiscard]] std::span<const std::uint32_t> share(std::int64_t step) const {
        const auto all = this->step(step);
        const auto ranks = static_cast<std::size_t>(options_.ranks);
        const auto rank = static_cast<std::size_t>(options_.rank);
        const std::size_t least = all.size() / ranks, longer = all.size() % ranks;
        return all.subspan(rank * least + std::min(rank, longer), least + (rank < longer ? 1 : 0));
    }

private:
    GX_COLD static void validate(std::int64_t samples, const LoaderOptions& o) {
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
                        " samples: at most 4294967295 are supported.");
    }

    LoaderOptions options_;
    std::vector<std::uint32_t> order_;
};

}  // namespace gx
