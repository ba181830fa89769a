// EpochOrder: the samples of each rank in each step of an epoch.
#pragma once

#include <algorithm>  // min
#include <cstdint>    // uint32_t
#include <span>       // shares
#include <vector>     // the order

#include <gx/core/contract.hpp>   // GX_EXPECT
#include <gx/core/decl.hpp>       // GX_DECL
#include <gx/core/error.hpp>      // Error
#include <gx/loader/concept.hpp>  // LoaderOptions

namespace gx {

/// Random permutation of the samples, sharded over steps and ranks.
///
/// The order is cut into steps of ranks x batch, and each step into one run a rank, of sizes that
/// differ by at most one, longer runs first. The last step has the rest.
///
/// Every sample comes once an epoch, for any number of ranks. A step's set of samples depends on
/// ranks x batch and not on how it is made up.
///
/// Errors: gx::Error for a batch or a data set without images, a rank outside of 0 ... ranks - 1,
///         or more ranks than samples.
/// Order:  a function of (seed, epoch, sample count); the same on every rank, and computed by
///         each on its own.
/// Cost:   one random block a sample and epoch, about 10 ns; no allocation after construction.
class EpochOrder {
public:
    EpochOrder(std::int64_t samples, const LoaderOptions& o);

    /// The first `done` samples of the epoch's order are left out: steps are cut from there on.
    void begin_epoch(int epoch, std::int64_t done = 0);

    [[nodiscard]] std::int64_t samples() const { return std::ssize(order_); }
    [[nodiscard]] std::int64_t global_batch() const {
        return std::int64_t{options_.ranks} * options_.batch;
    }
    [[nodiscard]] std::int64_t steps() const { return steps_after(0); }
    /// Steps of an epoch that begins without its first `done` samples.
    [[nodiscard]] std::int64_t steps_after(std::int64_t done) const {
        return (samples() - done + global_batch() - 1) / global_batch();
    }

    /// Returns the samples of `step`, counted from where the epoch was begun, over all ranks.
    [[nodiscard]] std::span<const std::uint32_t> step(std::int64_t step) const {
        GX_EXPECT(step >= 0 && step < steps_after(done_),
                  "an epoch has steps_per_epoch() steps: begin the next one");
        const std::int64_t first = done_ + step * global_batch();
        const std::int64_t count = std::min(global_batch(), samples() - first);
        return std::span(order_).subspan(static_cast<std::size_t>(first),
                                         static_cast<std::size_t>(count));
    }

    /// Returns this rank's samples of `step`; none if the ranks before it have them all.
    [[nodiscard]] std::span<const std::uint32_t> share(std::int64_t step) const {
        const auto all = this->step(step);
        const auto ranks = static_cast<std::size_t>(options_.ranks);
        const auto rank = static_cast<std::size_t>(options_.rank);
        const std::size_t least = all.size() / ranks, longer = all.size() % ranks;
        return all.subspan(rank * least + std::min(rank, longer), least + (rank < longer ? 1 : 0));
    }

private:
    LoaderOptions options_;
    std::vector<std::uint32_t> order_;
    std::int64_t done_ = 0;
};

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/loader/impl/order.ipp>
#endif
