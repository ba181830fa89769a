// TopK: sends the largest values of each bucket, and keeps the others for later steps.
#pragma once

#include <algorithm>    // nth_element, sort
#include <bit>          // bit_cast
#include <cmath>        // ceil
#include <cstddef>      // ptrdiff_t
#include <cstdint>      // uint32_t
#include <limits>       // quiet_NaN
#include <numeric>      // iota
#include <span>         // values
#include <string_view>  // string_view
#include <vector>       // offsets

#include <gx/collective/all_gather_bytes.hpp>   // all_gather_bytes
#include <gx/core/contract.hpp>                 // GX_EXPECT
#include <gx/core/element.hpp>                  // fp32
#include <gx/core/findings.hpp>                 // Findings
#include <gx/memory/buffer.hpp>                 // Buffer
#include <gx/memory/queue.hpp>                  // launch
#include <gx/reducer/accuracy.hpp>              // Accuracy
#include <gx/reducer/concept.hpp>               // ReduceReport, Bucket
#include <gx/reducer/error_feedback_state.hpp>  // ErrorFeedbackState

namespace gx {

namespace detail::top_k {

/// What is sent of a value.
struct Entry {
    std::uint32_t index;  ///< in the bucket
    float value;          ///< of the gradient without its loss scale, plus the residual
};
static_assert(sizeof(Entry) == 8);

/// The first k of `order`, in ascending order: the indices of the k values of largest magnitude, of
/// equal magnitudes the first. NaN is larger than infinity, which is larger than any number.
inline void select(std::span<const float> values, std::size_t k, std::span<std::uint32_t> order) {
    const auto magnitude = [&](std::uint32_t i) {
        return std::bit_cast<std::uint32_t>(values[i]) & 0x7fffffffu;
    };
    std::iota(order.begin(), order.end(), 0u);
    const auto kth = order.begin() + static_cast<std::ptrdiff_t>(k);
    std::nth_element(order.begin(), kth, order.end(), [&](std::uint32_t a, std::uint32_t b) {
        return magnitude(a) != magnitude(b) ? magnitude(a) > magnitude(b) : a < b;
    });
    std::sort(order.begin(), kth);
}

/// Writes what a rank sends, ascending, and what it keeps.
struct Choose {
    static constexpr std::string_view name = "choose entries";
    /// Of a GPU's radix select, 8 bits of the magnitudes a pass: the sum read, added to and written
    /// once, four passes that read it, one that picks and clears the entries.
    static std::int64_t traffic_bytes(float, std::span<const float> values, std::span<const float>,
                                      std::span<float>, std::span<std::uint32_t>,
                                      std::span<Entry> mine) {
        constexpr int read_and_written = 3, passes = 5;
        return static_cast<std::int64_t>((read_and_written + passes) * values.size_bytes() +
                                         mine.size_bytes() + mine.size() * sizeof(float));
    }
    void operator()(float loss_scale, std::span<const float> values, std::span<const float> before,
                    std::span<float> after, std::span<std::uint32_t> order,
                    std::span<Entry> mine) const {
        for (std::size_t i = 0; i < values.size(); ++i)
            after[i] = values[i] / loss_scale + before[i];
        select(after, mine.size(), order);
        for (std::size_t j = 0; j < mine.size(); ++j) {
            mine[j] = {order[j], after[order[j]]};
            after[order[j]] = 0;
        }
    }
};

/// The mean of what all ranks sent, rank 0 first. An index beyond the bucket, which a corrupted
/// message may have, makes it NaN: a rank that reads one skips the step, and where others do not,
/// the comparison of replicas ends the run.
struct AddUp {
    static constexpr std::string_view name = "add entries";
    float ranks;
    /// Zeros are written, entries read and added, and all values scaled in place.
    static std::int64_t traffic_bytes(float, std::span<const Entry> all, std::span<float> bucket) {
        return static_cast<std::int64_t>(3 * bucket.size_bytes() + all.size_bytes() +
                                         2 * all.size() * sizeof(float));
    }
    void operator()(float loss_scale, std::span<const Entry> all, std::span<float> bucket) const {
        std::fill(bucket.begin(), bucket.end(), 0.0f);
        for (const Entry& e : all)
            if (e.index < bucket.size()) bucket[e.index] += e.value;
            else bucket.front() = std::numeric_limits<float>::quiet_NaN();  // not as it was sent
        const float factor = loss_scale / ranks;
        for (float& x : bucket) x *= factor;
    }
};

}  // namespace detail::top_k

/// Sparse all-reduce with error feedback. For each bucket of N values, on each rank:
///
///     v        = gradient / loss scale + residual
///     sent     = the k = ceil(share N) values of v with the largest magnitudes
///     residual = v, and 0 where it is sent
///     bucket   = loss scale / n * sum of what the n ranks sent
///
/// A skipped step takes the residual of its gradient with it: ErrorFeedbackState. Accuracy: applied
/// gradients plus residuals are the gradients that were given, up to roundings.
///
/// Wire:   an all-gather of k pairs of a 4-byte index and a 4-byte value a rank: 8 k (n - 1) bytes
///         sent by each rank in n - 1 steps. A ring of fp32 sends 8 N (n - 1) / n: TopK sends less
///         where the share is below 1 / n.
/// Order:  contributions are added from rank 0 up, so all ranks end bitwise equal in every world.
///         The bits depend on where buckets are cut: each is searched for its own largest values.
/// Errors: incomplete when a rank is missing; a bucket larger than reserved breaks the contract. A
///         value that is not finite is sent before all others. An index from the wire that is not
///         in the bucket makes the bucket NaN.
/// Cost:   a selection in O(N); ErrorFeedbackState's memory, 4 bytes an element for indices, and
///         8 k (n + 1); allocates nothing in a step.
/// Source: Aji and Heafield 2017, "Sparse communication for distributed gradient descent",
///         arXiv:1704.05021; Stich et al. 2018, "Sparsified SGD with memory", arXiv:1809.07599.
///         Without the momentum correction and the warm-up of Lin et al. 2018, arXiv:1712.01887.
class TopK {
public:
    struct Options {
        double share = 0.01;  ///< of the values that is sent: above 0, at most 1
    };
    using wire_type = fp32;
    static constexpr int channels = 1, staleness = 0;
    static constexpr bool asynchronous = true;
    static constexpr bool repeats_work = true;
    static constexpr Accuracy accuracy = Accuracy::error_feedback;

    TopK() = default;
    explicit TopK(const Options& o) : options_(o) {
        GX_EXPECT(check(o).empty(), "TopK: options that its check() refuses");
    }

    static constexpr Findings check(const Options& o) {
        return Findings{}.expect(o.share > 0 && o.share <= 1,
                                 "TopK: share must be above 0 and at most 1");
    }
    /// Values sent of a bucket of `count`.
    [[nodiscard]] std::size_t sent_of(std::size_t count) const {
        const auto k =
            static_cast<std::size_t>(std::ceil(options_.share * static_cast<double>(count)));
        return std::min(k, count);
    }

    void reserve(const ReducePlan& plan) {
        state_.reserve(plan);
        placement_ = plan.placement;
        const auto longest = static_cast<std::size_t>(plan.bucket_elements);
        const auto ranks = static_cast<std::size_t>(plan.placement.ranks());
        order_ = {plan.memory, plan.bucket_elements, "order"};
        all_ = {plan.memory, static_cast<std::int64_t>(ranks * sent_of(longest)), "entries"};
        offsets_.assign(ranks + 1, 0);
    }

    template <Link T>
    ReduceReport all_reduce(T& link, const BucketOn<T>& bucket) {
        using M = memory_of<T>;
        GX_EXPECT(link.placement() == placement_, "reserve() for the placement it will run on");
        GX_EXPECT(bucket.size() <= order_.size(), "a bucket larger than was reserved");
        const auto ranks = static_cast<std::size_t>(link.ranks());
        const std::size_t k = sent_of(bucket.size());
        const auto all = all_.template view<M>().first(ranks * k);
        const auto mine = all.subspan(static_cast<std::size_t>(link.rank()) * k, k);
        const auto [before, after] = state_.of(bucket);
        launch(queue_of(link), detail::top_k::Choose{}, bucket.loss_scale,
               ViewIn<const float, M>(bucket.values), before, after,
               order_.template view<M>().first(bucket.size()), mine);
        for (std::size_t r = 0; r <= ranks; ++r)
            offsets_[r] = static_cast<std::int64_t>(r * k * sizeof(Entry));
        const auto done = collective::all_gather_bytes(link, bytes_of(mine), writable_bytes_of(all),
                                                       std::span(offsets_), 0);
        if (done.delivery.complete())
            launch(queue_of(link), detail::top_k::AddUp{static_cast<float>(ranks)},
                   bucket.loss_scale, ViewIn<const Entry, M>(all), bucket.values);
        return {done.delivery, done.bytes_sent, done.steps};
    }

    void settle(std::uint64_t gradient, bool applied) { state_.settle(gradient, applied); }
    template <class Q>
    void settle_on(Q& queue, std::uint64_t gradient, ScalarIn<Flag, memory_of<Q>> applied) {
        state_.settle_on(queue, gradient, applied);
    }
    StateList unsettled() { return state_.unsettled(); }
    StateList state() { return state_.state(); }

private:
    using Entry = detail::top_k::Entry;

    Options options_{};
    Placement placement_{0, 0};
    ErrorFeedbackState state_{};
    Buffer<std::uint32_t> order_{};
    Buffer<Entry> all_{};
    std::vector<std::int64_t> offsets_{};
};

}  // namespace gx
