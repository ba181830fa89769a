// FusedScaling: the factors of a mean, applied where an all-reduce touches its values anyhow.
#pragma once

#include <algorithm>  // copy, fill, min
#include <cstddef>    // size_t
#include <cstdint>    // int64_t
#include <span>       // values
#include <utility>    // exchange
#include <vector>     // what is known of each chunk

#include <gx/collective/exchange.hpp>  // Collective, chunk_range
#include <gx/core/contract.hpp>        // GX_EXPECT
#include <gx/core/convert.hpp>         // accumulate, encode_scaled

namespace gx::collective {

/// Factors on every element of a mean: on each rank's own value, and on the sum.
struct MeanFactors {
    float before = 1, after = 1;
    [[nodiscard]] constexpr bool are_one() const { return before == 1 && after == 1; }
};

/// mine = (mine * before + received * of_received) * after, each product and the sum rounded to
/// float: the bits of passes one behind the other, a factor of 1 without one. `received` is changed
/// where there are no vectors: then in blocks that stay in the L1 cache.
inline void accumulate_scaled(std::span<float> received, MeanFactors factors, std::span<float> mine,
                              float of_received = 1, Simd simd = best_simd()) {
    constexpr std::size_t block = 2048;
    const std::size_t done = gx::detail::convert::add_products(received, mine, of_received,
                                                               factors.before, factors.after, simd);
    for (std::size_t at = done; at < mine.size(); at += block) {
        const std::span<float> m = mine.subspan(at, std::min(block, mine.size() - at));
        const std::span<float> r = received.subspan(at, m.size());
        if (of_received != 1) encode_scaled<fp32>(r, of_received, r);
        if (factors.before != 1) encode_scaled<fp32>(m, factors.before, m);
        accumulate<fp32>(r, m);
        if (factors.after != 1) encode_scaled<fp32>(m, factors.after, m);
    }
}

/// Scales the chunks of one rank in an all-reduce of floats: by `before` as a chunk is first added
/// to, or sent, which each is, as the rank has a part in its sum; by `after` behind the addition
/// that completes the sum. A message that is added where it arrives, of chunks that the sender has
/// not scaled, is scaled there, in the same pass. The addition that completes a sum is taken to be
/// the last thing which the rank receives of a chunk, unless that is a copy of what another rank
/// has scaled: yields_mean() checks a collective for it.
///
/// Bits:   those of a pass with `before` over all values and, behind the all-reduce, of one with
///         `after`.
/// Cost:   no pass of its own, but over what is first sent as a copy: nothing, in those of gx.
class FusedScaling {
public:
    /// Whether the fused all-reduce `c` leaves the mean on every rank, and no sum: none ends with
    /// a copy of an unscaled sum, and nothing is added to a mean.
    /// Cost: each rank's exchanges three times; 5 bytes for each rank and chunk, and one for each
    ///       of the chunks in messages of a step.
    template <Collective C>
    [[nodiscard]] static bool yields_mean(const C& c) {
        const auto ranks = static_cast<std::size_t>(c.ranks());
        const auto chunks = static_cast<std::size_t>(c.chunks());
        const auto several = static_cast<std::size_t>(message_chunks(c));
        const auto place = [chunks](int rank, int chunk) {
            return static_cast<std::size_t>(rank) * chunks + static_cast<std::size_t>(chunk);
        };
        std::vector<int> last(ranks * chunks, of_no_step);  // receive, [rank][chunk]
        std::vector<char> is_mean(ranks * chunks, 0), arrives(ranks * several, 0);
        for (int step = 0; step < c.steps(); ++step)
            each_received(c, step, [&](int rank, const Exchange& e, int k) {
                last[place(rank, e.receive_chunk + k)] = step;
            });
        bool yields = true;
        for (int step = 0; step < c.steps(); ++step) {
            std::size_t sent = 0, received = 0;  // chunks, in one order
            each_received(c, step, [&](int, const Exchange& e, int k) {
                arrives[sent++] = is_mean[place(e.from, e.receive_chunk + k)];
            });
            each_received(c, step, [&](int rank, const Exchange& e, int k) {
                const std::size_t mine = place(rank, e.receive_chunk + k);
                const char other = arrives[received++];
                const bool sums = adds(e.combine);
                yields = yields && !(sums && (is_mean[mine] != 0 || other != 0));
                is_mean[mine] = sums ? last[mine] == step : other;
            });
        }
        for (std::size_t i = 0; i < last.size(); ++i)
            yields = yields && (is_mean[i] != 0 || last[i] == of_no_step);
        return yields;
    }

    /// Room for any rank's part in `c`: nothing is allocated later.
    template <Collective C>
    void reserve(const C& c) {
        last_received_.assign(static_cast<std::size_t>(c.chunks()), of_no_step);
        is_scaled_.assign(last_received_.size(), 0);
        sends_unscaled_.assign(static_cast<std::size_t>(c.steps()), 0);
        receives_unscaled_.assign(sends_unscaled_.size(), 0);
        is_known_.assign(static_cast<std::size_t>(c.ranks()), 0);
        rank_ = -1;
    }
    /// Starts an all-reduce of `rank`.
    template <Collective C>
    void begin(const C& c, int rank) {
        GX_EXPECT(last_received_.size() == static_cast<std::size_t>(c.chunks()),
                  "scaling that was reserved for the collective");
        if (rank != rank_) learn(c, rank);
        std::fill(is_scaled_.begin(), is_scaled_.end(), char{0});
    }

    /// `e`, of `step`, is about to send from `values`, all chunks of the flow, and to receive.
    void send(const Exchange& e, int step, MeanFactors f, std::span<float> values) {
        if (e.to >= 0 && at(sends_unscaled_, step) == 0)
            scale(e.send_chunk, e.chunks, f.before, values);
        for (int k = 0; e.from >= 0 && !adds(e.combine) && k < e.chunks; ++k)
            at(is_scaled_, e.receive_chunk + k) = 1;  // by another rank
    }
    /// Combines what `e`, of `step`, has received, where it is added. `received` is changed.
    void add(const Exchange& e, int step, MeanFactors f, std::span<float> received,
             std::span<float> values) {
        const int end = e.receive_chunk + e.chunks;
        const std::int64_t origin = range(values, e.receive_chunk, 1).begin;
        for (int first = e.receive_chunk, next = first; first < end; first = next) {
            const bool is_scaled = at(is_scaled_, first) != 0, completes = is_last(first, step);
            while (++next < end && (at(is_scaled_, next) != 0) == is_scaled &&
                   is_last(next, step) == completes) {
            }
            const ChunkRange r = range(values, first, next - first);
            const std::span<float> mine = part(values, r),
                                   other = part(received, {r.begin - origin, r.end - origin});
            const float before = is_scaled ? 1 : f.before, after = completes ? f.after : 1;
            const float of_received = at(receives_unscaled_, step) != 0 ? f.before : 1;
            if (e.combine == Combine::add_to_received) {
                accumulate_scaled(mine, {of_received, after}, other, before);
                std::copy(other.begin(), other.end(), mine.begin());
            } else {
                accumulate_scaled(other, {before, after}, mine, of_received);
            }
            for (int c = first; c < next; ++c) at(is_scaled_, c) = 1;
        }
    }
    /// The all-reduce is done: scales what the rank has received nothing of.
    void end(MeanFactors f, std::span<float> values) {
        for (int c = 0; c < static_cast<int>(last_received_.size()); ++c) {
            if (at(last_received_, c) != of_no_step) continue;
            scale(c, 1, f.before, values);
            multiply(part(values, range(values, c, 1)), f.after);
        }
    }

private:
    static constexpr int of_no_step = -1;

    /// f(rank, exchange, k) for the k-th chunk of each message of a step.
    template <Collective C, class F>
    static void each_received(const C& c, int step, F f) {
        for (int rank = 0; rank < c.ranks(); ++rank) {
            const Exchange e = c.exchange(rank, step);
            for (int k = 0; e.from >= 0 && k < e.chunks; ++k) f(rank, e, k);
        }
    }
    template <class T>
    static T& at(std::vector<T>& v, int i) {
        return v[static_cast<std::size_t>(i)];
    }
    [[nodiscard]] bool is_last(int chunk, int step) { return at(last_received_, chunk) == step; }
    [[nodiscard]] ChunkRange range(std::span<float> values, int first, int several) const {
        return chunk_range(static_cast<std::int64_t>(values.size()),
                           static_cast<int>(last_received_.size()), first, several);
    }
    [[nodiscard]] static std::span<float> part(std::span<float> values, ChunkRange r) {
        return values.subspan(static_cast<std::size_t>(r.begin),
                              static_cast<std::size_t>(r.size()));
    }
    static void multiply(std::span<float> values, float factor) {
        if (factor != 1) encode_scaled<fp32>(values, factor, values);
    }
    void scale(int first, int several, float factor, std::span<float> values) {
        const int end = first + several;
        for (int next = first; first < end; first = next) {
            const bool is_scaled = at(is_scaled_, first) != 0;
            while (++next < end && (at(is_scaled_, next) != 0) == is_scaled) {
            }
            if (is_scaled) continue;
            multiply(part(values, range(values, first, next - first)), factor);
            for (int c = first; c < next; ++c) at(is_scaled_, c) = 1;
        }
    }
    template <Collective C>
    void learn(const C& c, int rank) {
        for (auto* flags : {&sends_unscaled_, &receives_unscaled_, &is_known_})
            std::fill(flags->begin(), flags->end(), char{0});
        std::fill(last_received_.begin(), last_received_.end(), of_no_step);
        each_unscaled(c, rank, [&](int, int step) { at(sends_unscaled_, step) = 1; });
        for (int step = 0; step < c.steps(); ++step) {
            const Exchange e = c.exchange(rank, step);
            for (int k = 0; e.from >= 0 && k < e.chunks; ++k)
                at(last_received_, e.receive_chunk + k) = step;
            if (e.from >= 0 && std::exchange(at(is_known_, e.from), char{1}) == 0)
                each_unscaled(c, e.from, [&](int to, int its_step) {
                    if (to == rank) at(receives_unscaled_, its_step) = 1;
                });
        }
        rank_ = rank;
    }
    /// f(to, step) for the messages of `rank` that are added where they arrive. Messages whose
    /// chunks it has scaled or added to before are left out.
    template <Collective C, class F>
    void each_unscaled(const C& c, int rank, F f) {
        auto& is_scaled = is_scaled_;  // begin() fills it
        std::fill(is_scaled.begin(), is_scaled.end(), char{0});
        for (int step = 0; step < c.steps(); ++step) {
            const Exchange e = c.exchange(rank, step);
            bool unscaled = e.to >= 0 && adds(c.exchange(e.to, step).combine);
            for (int k = 0; e.to >= 0 && k < e.chunks; ++k)
                unscaled = unscaled && at(is_scaled, e.send_chunk + k) == 0;
            if (unscaled) f(e.to, step);
            for (int k = 0; e.to >= 0 && !unscaled && k < e.chunks; ++k)
                at(is_scaled, e.send_chunk + k) = 1;
            for (int k = 0; e.from >= 0 && k < e.chunks; ++k)
                at(is_scaled, e.receive_chunk + k) = 1;
        }
    }

    int rank_ = -1;
    std::vector<int> last_received_{};       ///< [chunk]: the step
    std::vector<char> is_scaled_{};          ///< [chunk], by `before`
    std::vector<char> sends_unscaled_{};     ///< [step]
    std::vector<char> receives_unscaled_{};  ///< [step]
    std::vector<char> is_known_{};           ///< [rank], as a sender
};

}  // namespace gx::collective
