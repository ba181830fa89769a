// RingMean: the mean over K rings at once, on which Ring and MultiRing are built.
#pragma once

#include <algorithm>    // max, min
#include <array>        // K flows
#include <concepts>     // same_as
#include <cstdint>      // int64_t
#include <optional>     // before reserve()
#include <span>         // bucket
#include <string_view>  // broken contracts

#include <gx/collective/execute.hpp>   // execute
#include <gx/collective/proof.hpp>     // prove_all_reduce
#include <gx/collective/ring.hpp>      // machine_ring
#include <gx/core/aligned_buffer.hpp>  // AlignedBuffer
#include <gx/core/convert.hpp>         // encode_scaled
#include <gx/reducer/concept.hpp>      // ReduceReport
#include <gx/reducer/divide.hpp>       // DividePolicy

namespace gx::detail::reducer {

/// Part k of the bucket, of K contiguous parts cut like chunks, goes round ring k on channel k.
///
///     wire[i] = E::encode(bucket[i] * Divide::before(n))     at the start
///     wire[i] = E::encode(mine + received)                   at every adding hop, sum in float
///     bucket[i] = E::decode(wire[i]) * Divide::after(n)      at the end, on every rank alike
///
/// With fp32 the wire is the bucket itself, without a copy.
template <int K, Element E, DividePolicy Divide>
class RingMean {
public:
    void reserve(Placement placement, std::int64_t elements) {
        GX_EXPECT(elements >= 0, "a bucket has at least 0 elements");
        placement_ = placement;
        elements_ = elements;
        for (int k = 0; k < K; ++k) {
            rings_[index(k)].emplace(collective::machine_ring(placement, k));
            if (placement.ranks() > collective::ranks_proved_at_start) continue;
            const auto proof = collective::prove_all_reduce(*rings_[index(k)]);
            GX_EXPECT(proof.holds(), proof.sentence());
        }
        chunk_ = chunk_range(chunk_range(elements, K, 0).size(), placement.ranks(), 0).size();
        scratch_ = AlignedBuffer<storage>(placement.ranks() > 1 ? chunk_ * K : 0);
        if constexpr (!in_place) wire_ = AlignedBuffer<storage>(elements);
    }

    ReduceReport all_reduce(Transport auto& link, std::span<float> bucket) {
        GX_EXPECT(link.placement() == placement_, "reserve() for the placement it will run on");
        const auto count = static_cast<std::int64_t>(bucket.size());
        GX_EXPECT(count <= elements_, "a bucket larger than reserve() was told");
        const auto wire = pack(bucket);
        std::array<collective::Flow<E, collective::Ring>, K> flows = [&]<int... k>(
            std::integer_sequence<int, k...>) {
            return std::array<collective::Flow<E, collective::Ring>, K>{flow(wire, k)...};
        }
        (std::make_integer_sequence<int, K>{});
        const collective::Execution done = collective::execute(link, flows);
        if (done.delivery.complete()) unpack(wire, bucket);
        return {done.delivery, done.bytes_sent, done.steps};
    }

private:
    using storage = typename E::storage;
    static constexpr bool in_place = std::same_as<E, fp32>;
    static constexpr std::size_t index(int k) { return static_cast<std::size_t>(k); }

    std::span<storage> pack(std::span<float> bucket) {
        const float factor = Divide::before(placement_.ranks());
        if constexpr (in_place) {
            if (factor != 1.0f) encode_scaled<E>(bucket, factor, bucket);
            return bucket;
        } else {
            const auto wire = wire_.span().first(bucket.size());
            encode_scaled<E>(bucket, factor, wire);
            return wire;
        }
    }
    void unpack(std::span<const storage> wire, std::span<float> bucket) {
        const float factor = Divide::after(placement_.ranks());
        if (in_place && factor == 1.0f) return;
        decode_scaled<E>(wire, factor, bucket);
    }
    collective::Flow<E, collective::Ring> flow(std::span<storage> wire, int k) {
        const auto part = chunk_range(static_cast<std::int64_t>(wire.size()), K, k);
        const auto scratch = scratch_.size() / index(K);
        return {*rings_[index(k)],
                wire.subspan(static_cast<std::size_t>(part.begin),
                             static_cast<std::size_t>(part.size())),
                scratch_.span().subspan(index(k) * scratch, scratch), k};
    }

    Placement placement_{0, 0};
    std::int64_t elements_ = 0;
    std::int64_t chunk_ = 0;
    std::array<std::optional<collective::Ring>, static_cast<std::size_t>(K)> rings_;
    AlignedBuffer<storage> wire_;
    AlignedBuffer<storage> scratch_;
};

}  // namespace gx::detail::reducer
