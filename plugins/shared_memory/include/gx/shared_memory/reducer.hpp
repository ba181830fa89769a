// SharedMemory<E>: one pass over all ranks' buffers where they share memory, else messages.
#pragma once

#include <algorithm>    // copy, min
#include <array>        // a block
#include <concepts>     // same_as
#include <cstddef>      // byte
#include <cstdint>      // int64_t
#include <optional>     // messages, where they are needed
#include <span>         // buffers
#include <string>       // name
#include <type_traits>  // remove_cvref_t

#include <gx/collective/exchange.hpp>      // chunk_range
#include <gx/core/contract.hpp>            // GX_EXPECT
#include <gx/core/convert.hpp>             // encode, decode_add
#include <gx/core/element.hpp>             // fp32
#include <gx/core/transport.hpp>           // shares_memory
#include <gx/reducer/concept.hpp>          // ReduceReport, Bucket
#include <gx/reducer/rank_order_mean.hpp>  // RankOrderMean

namespace gx {

/// Mean over all ranks in place. Where the transport's ranks reach one another's memory, rank r
/// has chunk r of n, and for each element i of it:
///
///     sum          = E::decode(E::encode(bucket_0[i])) + ... of rank n - 1, in float
///     bucket_k[i]  = E::decode(E::encode(sum * (1 / n)))         of every rank k
///
/// between two meetings of all ranks. Elsewhere RankOrderMean makes the same sums by messages.
///
/// Order:  from rank 0 up. The bits are those of RankOrderMean: they depend on the rank count; not
///         on where buckets are cut, the world, timing, threads, or which path is taken.
/// Wire:   nothing in shared memory: 0 steps, 0 bytes; else as RankOrderMean.
/// Errors: incomplete when a rank is missing; a bucket larger than reserved breaks the contract,
///         as buckets of unequal lengths do in shared memory.
/// Cost:   in shared memory every buffer is read once and written once, 8 bytes an element and
///         rank, the least possible; no memory of its own. By messages, that of RankOrderMean,
///         allocated in the first reduction.
template <class E = fp32>
class SharedMemory {
    static_assert(Element<E>,
                  "gx: the values that SharedMemory adds are not an Element: they are rounded to "
                  "fp32, fp16 or bf16. Fix: name one, as in 'SharedMemory<gx::fp32>'.");

public:
    using wire_type = E;
    static constexpr int channels = 1, staleness = 0;
    static constexpr bool asynchronous = true;
    static constexpr bool repeats_work = true;

    [[nodiscard]] static std::string name() { return "SharedMemory<" + std::string(E::name) + ">"; }

    void reserve(const ReducePlan& plan) {
        GX_EXPECT(plan.bucket_elements >= 0, "a bucket has at least 0 elements");
        plan_ = plan;
        messages_.reset();
    }
    template <Link T>
    ReduceReport all_reduce(T& link, const BucketOn<T>& bucket) {
        GX_EXPECT(link.placement() == plan_.placement,
                  "reserve() for the placement it will run on");
        GX_EXPECT(static_cast<std::int64_t>(bucket.size()) <= plan_.bucket_elements,
                  "a bucket larger than was reserved");
        if constexpr (SharesMemory<std::remove_cvref_t<decltype(link)>>)
            if (link.shares_memory()) return reduce_in_place(link, bucket.values);
        if (!messages_) messages_.emplace().reserve(plan_);
        return messages_->all_reduce(link, bucket.values);
    }
    StateList state() { return {}; }

private:
    static constexpr std::size_t block = 2048;  // sums that stay in the first cache
    using Block = std::array<float, block>;

    static std::span<float> floats(std::span<std::byte> memory) {
        return {reinterpret_cast<float*>(memory.data()), memory.size() / sizeof(float)};
    }

    ReduceReport reduce_in_place(auto& link, std::span<float> mine) {
        const int rank = link.rank();
        return {
            link.share(0, std::as_writable_bytes(mine),
                       [&](std::span<const std::span<std::byte>> all) {
                           for (const auto memory : all)
                               GX_EXPECT(memory.size() == mine.size_bytes(),
                                         "all ranks reduce a bucket of one length");
                           const ChunkRange part =
                               chunk_range(std::ssize(mine), static_cast<int>(all.size()), rank);
                           const auto end = static_cast<std::size_t>(part.end);
                           for (auto i = static_cast<std::size_t>(part.begin); i < end; i += block)
                               average(all, i, std::min(block, end - i));
                       }),
            0, 0};
    }
    /// `count` elements from `first` on, of all ranks.
    static void average(std::span<const std::span<std::byte>> all, std::size_t first,
                        std::size_t count) {
        alignas(64) Block sums;  // written before it is read
        alignas(64) std::array<typename E::storage, block> rounded;
        const auto sum = std::span(sums).first(count);
        const auto wire = std::span(rounded).first(count);
        for (std::size_t r = 0; r < all.size(); ++r) {
            const auto values = floats(all[r]).subspan(first, count);
            std::span<const typename E::storage> contribution = wire;
            if constexpr (std::same_as<E, fp32>) contribution = values;
            else encode<E>(values, wire);
            if (r == 0) decode<E>(contribution, sum);
            else decode_add<E>(contribution, sum);
        }
        encode_scaled<E>(sum, 1.0f / static_cast<float>(all.size()), wire);
        for (const auto memory : all) decode<E>(wire, floats(memory).subspan(first, count));
    }

    ReducePlan plan_{.placement = {0, 0}};
    std::optional<RankOrderMean<E>> messages_;
};

}  // namespace gx
