// SharedMemory<E>: one pass over all ranks' buffers where they share memory, else messages.
#pragma once

#include <algorithm>    // min
#include <cstddef>      // byte
#include <cstdint>      // int64_t
#include <optional>     // messages, where they are needed
#include <span>         // buffers
#include <string>       // name
#include <type_traits>  // remove_cvref_t

#include <gx/collective/exchange.hpp>      // chunk_range
#include <gx/core/contract.hpp>            // GX_EXPECT
#include <gx/core/convert.hpp>             // encode, decode
#include <gx/core/element.hpp>             // fp32
#include <gx/core/trivial_vector.hpp>      // TrivialVector
#include <gx/core/transport.hpp>           // shares_memory
#include <gx/reducer/concept.hpp>          // ReduceReport, Bucket
#include <gx/reducer/rank_order_mean.hpp>  // RankOrderMean
#include <gx/shared_memory/average.hpp>    // average

namespace gx {

namespace detail::shared_memory {
[[nodiscard]] inline std::string unequal_lengths(std::size_t rank, std::size_t bytes,
                                                 std::size_t other, std::size_t others) {
    return "rank " + std::to_string(rank) + " reduces a bucket of " + std::to_string(bytes) +
           " bytes where rank " + std::to_string(other) + " has " + std::to_string(others) +
           ": all ranks reduce a bucket of one length. Reduce the same buckets in the same order "
           "on every rank";
}
}  // namespace detail::shared_memory

/// Mean over all ranks in place. Where the transport's ranks reach one another's memory, rank r
/// has chunk r of n, and for each element i of it:
///
///     sum          = E::decode(E::encode(bucket_0[i])) + ... of rank n - 1, in float
///     bucket_k[i]  = E::decode(E::encode(sum * (1 / n)))         of every rank k
///
/// between two meetings of all ranks. Where there are more ranks than cores the last one to come
/// does that for all of them in buckets of at most 16 KiB, in one meeting. Elsewhere RankOrderMean
/// makes the same sums by messages.
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
    static constexpr bool works_in_place = true;

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
            if (link.shares_memory()) return reduce_in_place<fp32>(link, bucket.values);
        if (!messages_) messages_.emplace().reserve(plan_);
        return messages_->all_reduce(link, bucket.values);
    }
    /// The same of values that every rank keeps in E: half the bytes of floats are moved.
    /// By messages they become floats, in memory of its own, and back.
    /// Order:  the bits are those that all_reduce() leaves in the values as floats, in E.
    template <Link T>
    ReduceReport average(T& link, std::span<typename E::storage> values)
        requires(sizeof(typename E::storage) < sizeof(float))
    {
        GX_EXPECT(static_cast<std::int64_t>(values.size()) <= plan_.bucket_elements,
                  "a bucket larger than was reserved");
        if constexpr (SharesMemory<std::remove_cvref_t<decltype(link)>>)
            if (link.shares_memory()) return reduce_in_place<E>(link, values);
        floats_.resize(values.size());
        decode<E>(values, std::span(floats_.data(), floats_.size()));
        const ReduceReport report =
            all_reduce(link, Bucket(std::span(floats_.data(), floats_.size())));
        encode<E>(std::span<const float>(floats_.data(), floats_.size()), values);
        return report;
    }
    StateList state() { return {}; }

private:
    /// Up to here, ranks that take turns on cores average faster one for all than together.
    static constexpr std::size_t bytes_by_last = std::size_t{16} << 10;

    /// Of values that are stored in S, which is fp32 or E.
    template <class S>
    ReduceReport reduce_in_place(auto& link, std::span<typename S::storage> mine) {
        const auto memory = std::as_writable_bytes(mine);
        const auto me = static_cast<std::size_t>(link.rank());
        const auto average_of = [&](int rank, int ranks) {
            return [=](std::span<const std::span<std::byte>> all) {
                for (std::size_t k = 0; k < all.size(); ++k)
                    GX_EXPECT(all[k].size() == memory.size(),
                              detail::shared_memory::unequal_lengths(k, all[k].size(), me,
                                                                     memory.size()));
                average_share<S>(all, memory.size() / sizeof(typename S::storage), rank, ranks);
            };
        };
        if constexpr (requires { link.share_by_last(0, memory, average_of(0, 1)); })
            if (memory.size() <= bytes_by_last && link.shares_cores())
                return {link.share_by_last(0, memory, average_of(0, 1)), 0, 0};
        return {link.share(0, memory, average_of(link.rank(), link.ranks())), 0, 0};
    }
    /// Share `rank` of `ranks` of `count` elements; no two ranks write to one cache line.
    template <class S>
    static void average_share(std::span<const std::span<std::byte>> all, std::size_t count,
                              int rank, int ranks) {
        constexpr std::size_t grain = 64;  // elements
        const ChunkRange lines =
            chunk_range(static_cast<std::int64_t>((count + grain - 1) / grain), ranks, rank);
        detail::shared_memory::average<E, S>(
            all, std::min(count, static_cast<std::size_t>(lines.begin) * grain),
            std::min(count, static_cast<std::size_t>(lines.end) * grain));
    }

    ReducePlan plan_{.placement = {0, 0}};
    std::optional<RankOrderMean<E>> messages_;
    TrivialVector<float> floats_{};  ///< of average() by messages
};

}  // namespace gx
