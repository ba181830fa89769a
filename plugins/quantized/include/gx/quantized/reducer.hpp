// Quantized<Bits>: the mean by integers of 8 or 4 bits, rounded stochastically in blocks.
#pragma once

#include <algorithm>    // min
#include <array>        // sums
#include <concepts>     // same_as
#include <cstddef>      // byte
#include <cstdint>      // int64_t
#include <span>         // messages
#include <string>       // name
#include <string_view>  // names of kernels
#include <vector>       // offsets

#include <gx/collective/all_gather_bytes.hpp>     // all_gather_bytes
#include <gx/collective/execute.hpp>              // execute, raw_bytes
#include <gx/collective/pairwise_all_to_all.hpp>  // PairwiseAllToAll
#include <gx/core/element.hpp>                    // fp32
#include <gx/memory/buffer.hpp>                   // Buffer
#include <gx/memory/queue.hpp>                    // launch
#include <gx/quantized/block_codec.hpp>           // BlockCodec, explain_bits
#include <gx/reducer/accuracy.hpp>                // Accuracy
#include <gx/reducer/concept.hpp>                 // ReduceReport, Bucket

namespace gx {

namespace detail::quantized {

// Kernels.

/// Rounds values whose first is at `offset` in the gradient.
template <class Codec>
struct Encode {
    static constexpr std::string_view name = "quantize";
    static constexpr bool overwrites = true;
    std::int64_t offset;
    Rng draws;
    void operator()(std::span<const float> values, std::span<std::byte> out) const {
        Codec::encode(values, offset, draws, out);
    }
};
/// The same on a device, where the number of the gradient is in memory: kernels of all gradients
/// are the same.
template <class Codec>
struct EncodeNumbered {
    static constexpr std::string_view name = "quantize";
    static constexpr bool overwrites = true;
    std::int64_t offset;
    std::uint64_t seed;
    int rank;
    Phase phase;
    void operator()(std::uint64_t gradient, std::span<const float> values,
                    std::span<std::byte> out) const {
        Codec::encode(values, offset, Codec::draws(seed, gradient, rank, phase), out);
    }
};
struct CountGradients {
    static constexpr std::string_view name = "count gradients";
    std::uint64_t more;
    constexpr void operator()(std::span<std::uint64_t> number) const { number[0] += more; }
};
template <class Codec>
struct Decode {
    static constexpr std::string_view name = "dequantize";
    static constexpr bool overwrites = true;
    void operator()(std::span<const std::byte> message, std::span<float> values) const {
        Codec::decode(message, values);
    }
};
/// The mean of `ranks` messages of one chunk, each `longest` bytes apart, rank 0's first.
template <class Codec>
struct Average {
    static constexpr std::string_view name = "average messages";
    static constexpr bool overwrites = true;
    std::size_t longest;
    int ranks;
    void operator()(std::span<const std::byte> messages, std::span<float> chunk) const {
        constexpr std::size_t block = Codec::block_values;
        for (std::size_t done = 0; done < chunk.size(); done += block) {
            std::array<double, block> sums{};
            const auto some = std::span(sums).first(std::min(block, chunk.size() - done));
            for (int r = 0; r < ranks; ++r)
                Codec::add(messages.subspan(static_cast<std::size_t>(r) * longest)
                               .subspan(done / block * Codec::block_bytes),
                           some);
            for (std::size_t i = 0; i < some.size(); ++i)
                chunk[done + i] = static_cast<float>(some[i] / ranks);
        }
    }
};

/// Mean of buckets that travel as a codec's messages: all-to-all, sum by the owner, all-gather.
template <class Codec>
class TwoPhases {
public:
    using wire_type = fp32;
    static constexpr int channels = 1;
    static constexpr int staleness = 0;
    static constexpr bool asynchronous = true;
    static constexpr Accuracy accuracy = Accuracy::unbiased;
    static constexpr bool repeats_work = true;

    void reserve(const ReducePlan& plan) {
        GX_EXPECT(plan.bucket_elements >= 0, "a bucket has at least 0 elements");
        placement_ = plan.placement;
        seed_ = plan.seed;
        elements_ = static_cast<std::size_t>(plan.bucket_elements);
        const std::size_t longest = Codec::bytes(chunk(elements_, 0).count);
        messages_ = {
            plan.memory,
            static_cast<std::int64_t>(longest) * static_cast<std::int64_t>(placement_.ranks()),
            "quantized messages"};
        scratch_ = {plan.memory, placement_.ranks() > 1 ? static_cast<std::int64_t>(longest) : 0,
                    "quantized scratch"};
        number_ = {plan.memory, 1, "number of the gradient"};
        counted_ = 0;
        offsets_.assign(static_cast<std::size_t>(placement_.ranks()) + 1, 0);
    }

    template <Link T>
    ReduceReport all_reduce(T& link, const BucketOn<T>& bucket) {
        using M = memory_of<T>;
        GX_EXPECT(link.placement() == placement_, "reserve() for the placement it will run on");
        GX_EXPECT(bucket.size() <= elements_, "a bucket larger than was reserved");
        if (bucket.empty()) return {};
        const int n = link.ranks(), rank = link.rank();
        const std::size_t longest = Codec::bytes(chunk(bucket.size(), 0).count);
        const auto messages = messages_.template view<M>();
        const auto all = messages.first(static_cast<std::size_t>(n) * longest);
        if constexpr (!std::same_as<M, HostMemory>) count<M>(queue_of(link), bucket.gradient);
        const auto encode = [&](Chunk c, Phase phase, ViewIn<std::byte, M> out) {
            const std::int64_t offset = bucket.offset + static_cast<std::int64_t>(c.first);
            const ViewIn<const float, M> values = bucket.values.subspan(c.first, c.count);
            const auto message = out.first(Codec::bytes(c.count));
            if constexpr (std::same_as<M, HostMemory>)
                launch(queue_of(link),
                       Encode<Codec>{offset, Codec::draws(seed_, bucket.gradient, rank, phase)},
                       values, message);
            else
                launch(queue_of(link), EncodeNumbered<Codec>{offset, seed_, rank, phase},
                       ScalarIn<std::uint64_t, M>{number_.template view<M>()}, values, message);
        };

        for (int r = 0; r < n; ++r)
            encode(chunk(bucket.size(), r), Phase::gradient,
                   all.subspan(static_cast<std::size_t>(r) * longest, longest));
        const auto swapped = collective::execute(
            link, collective::Flow<collective::raw_bytes, collective::PairwiseAllToAll, M>{
                      collective::PairwiseAllToAll(n), all, scratch_.template view<M>()});
        if (!swapped.delivery.complete())
            return {swapped.delivery, swapped.bytes_sent, swapped.steps};

        const Chunk owned = chunk(bucket.size(), rank);
        launch(queue_of(link), Average<Codec>{longest, n}, ViewIn<const std::byte, M>(all),
               bucket.values.subspan(owned.first, owned.count));
        for (int r = 0; r <= n; ++r)
            offsets_[static_cast<std::size_t>(r)] =
                static_cast<std::int64_t>(Codec::bytes(chunk(bucket.size(), r).first));
        const auto mean =
            messages.subspan(static_cast<std::size_t>(offsets_[static_cast<std::size_t>(rank)]));
        encode(owned, Phase::mean, mean);
        const auto whole = messages.first(Codec::bytes(bucket.size()));
        const auto gathered = collective::all_gather_bytes(
            link, mean.first(Codec::bytes(owned.count)), whole, offsets_, 0);
        if (gathered.delivery.complete())
            launch(queue_of(link), Decode<Codec>{}, ViewIn<const std::byte, M>(whole),
                   bucket.values);
        return {gathered.delivery, swapped.bytes_sent + gathered.bytes_sent,
                swapped.steps + gathered.steps};
    }

    StateList state() { return {}; }

private:
    static constexpr std::size_t block = Codec::block_values;
    struct Chunk {
        std::size_t first = 0, count = 0;  ///< values
    };
    /// Part r of a bucket cut into a chunk of whole blocks for each rank; chunk 0 is the longest.
    /// Behind the last one: an empty chunk at the end.
    [[nodiscard]] Chunk chunk(std::size_t values, int r) const {
        const auto range = chunk_range(static_cast<std::int64_t>((values + block - 1) / block),
                                       placement_.ranks(), std::min(r, placement_.ranks() - 1));
        const std::size_t begin = std::min(static_cast<std::size_t>(range.begin) * block, values),
                          end = std::min(static_cast<std::size_t>(range.end) * block, values);
        if (r == placement_.ranks()) return {end, 0};
        return {begin, end - begin};
    }
    /// Brings the number on the device to that of the gradient: one kernel a gradient.
    template <class M>
    void count(auto&& queue, std::uint64_t gradient) {
        if (counted_ == gradient) return;
        launch(queue, CountGradients{gradient - counted_}, number_.template view<M>());
        counted_ = gradient;
    }

    Placement placement_{0, 0};
    std::uint64_t seed_ = 0;
    std::size_t elements_ = 0;
    Buffer<std::byte> messages_;  ///< to each rank, then of each rank, then of the mean
    Buffer<std::byte> scratch_;
    Buffer<std::uint64_t> number_;  ///< of the gradient, on a device
    std::uint64_t counted_ = 0;     ///< what it will be behind what is queued
    std::vector<std::int64_t> offsets_;
};

}  // namespace detail::quantized

/// Mean over all ranks in integers of 8 or 4 bits, without bias and without state: a quarter or an
/// eighth of the bytes of fp32.
///
///     bucket = n chunks of whole blocks of 256 values, as equal as may be
///     each rank: quantises its bucket, sends chunk j to rank j             all-to-all
///     rank j:    decodes n chunks, sums them, divides by n, quantises      owner of chunk j
///     each rank: receives the n means and decodes them, its own too        all-gather
///
/// A block is a step s = max |x| / L, where L = 127 for 8 bits and 7 for 4, and an integer
/// floor(x / s + u) for each value; quantized/block_codec.hpp has the special cases. A single
/// rank quantises twice too.
///
/// Wire:   With b blocks in the bucket and B = 4 + 32 Bits bytes a block: n - 1 steps of
///         ceil(b / n) B bytes, n steps for odd n > 1, and a ring of n - 1 steps, in which rank r
///         sends all chunks but that of rank r + 1. Of b = k n blocks, 2 (n - 1) / n of the bucket
///         at 1 + 4 / 256 bytes a value for 8 bits. Shorter chunks are filled up in the
///         all-to-all, so one block costs n - 1 of them. `wire_type` is fp32, whose range the
///         values have: Bucketed counts 4 bytes a value.
/// Order:  sums from rank 0 upwards, in double; the mean is rounded to float. A draw depends on
///         the plan's seed, gradient number, rank (of the mean: its owner), phase and the
///         element's offset in the gradient. The bits depend on the rank count and on where
///         buckets are cut; not on the world, timing, other buckets or a resume.
/// Errors: with s_r the step of rank r's block, S that of the mean's block, for each element:
///
///             |result - mean| < sum_r s_r / n + S                    the two roundings
///             E[result] = mean
///             variance <= (sum_r s_r^2 / n^2 + E[S^2]) / 4           <= (1 + 1/n) s^2 / 4
///
///         An integer is one of two neighbours, so its variance is p (1 - p) s^2 <= s^2 / 4. Draws
///         of ranks are independent: variances of the first rounding add, over n^2. The second
///         rounding has no bias given the first, so its variance adds too. On the right: all s_r
///         equal s, and a mean within their range, so S <= s. Beside these come two roundings to
///         float of the mean, and a bias below 2^-30 of the steps: draws are multiples of 2^-32.
///         A block with a value that is not finite on any rank is NaN, all of it, on all ranks, so
///         the step is skipped; other blocks keep their means. No finite value overflows.
///         Incomplete when a rank is missing; a bucket larger than reserved breaks the contract.
/// Cost:   a buffer of n chunks and a scratch of one; a step allocates nothing. A value is encoded
///         1 + 1 / n times, of about 3 ns a core at -O3 and 6 ns at -O2, nearly all for its draw,
///         and decoded twice, 0.1 to 1 ns each.
/// Source: Alistarh et al. 2017, "QSGD", arXiv:1610.02132, stochastic rounding in blocks (their
///         buckets); Tang et al. 2021, "1-bit Adam", arXiv:2102.02888, the two phases.
template <int Bits = 8>
class Quantized : public detail::quantized::TwoPhases<detail::quantized::BlockCodec<Bits>> {
    static_assert(detail::quantized::explain_bits<Bits>());

public:
    [[nodiscard]] static std::string name() { return "Quantized<" + std::to_string(Bits) + ">"; }
};

}  // namespace gx
