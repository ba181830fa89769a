// DisseminationBarrier, barrier(): no rank continues before all ranks have called it.
#pragma once

#include <array>    // the token
#include <cstddef>  // byte
#include <span>     // span

#include <gx/collective/exchange.hpp>  // Exchange, Promise
#include <gx/collective/execute.hpp>   // execute, raw_bytes
#include <gx/core/contract.hpp>        // GX_EXPECT
#include <gx/core/transport.hpp>       // Transport

namespace gx::collective {

/// In step s rank r sends to rank r + 2^s, modulo n. It receives from rank r - 2^s, modulo n: a
/// chain of messages has then reached it from each of the 2^(s+1) - 1 ranks before it.
///
/// Wire:  ceil(log2 n) steps of one message that holds nothing; the least possible where a rank
///        sends one message a step.
/// Time:  ceil(log2 n) alpha, alpha a message.
/// Source: Hensgen, Finkel and Manber 1988, "Two algorithms for barrier synchronization".
class DisseminationBarrier {
public:
    static constexpr Promise promise = Promise::barrier;

    constexpr explicit DisseminationBarrier(int ranks) : ranks_(ranks) {
        GX_EXPECT(ranks > 0, "a barrier needs at least one rank");
        while (1 << levels_ < ranks) ++levels_;
    }

    [[nodiscard]] constexpr int ranks() const { return ranks_; }
    [[nodiscard]] constexpr int chunks() const { return 1; }
    [[nodiscard]] constexpr int steps() const { return levels_; }

    [[nodiscard]] constexpr Exchange exchange(int rank, int step) const {
        const int reach = 1 << step;
        return {.to = (rank + reach) % ranks_,
                .send_chunk = 0,
                .from = (rank - reach + ranks_) % ranks_,
                .receive_chunk = 0};
    }

private:
    int ranks_;
    int levels_ = 0;
};

/// Returns when every rank of the transport has called it. Its messages are of one byte.
///
/// Errors: as execute(): an incomplete delivery names the rank that is missing.
/// Cost:   allocates nothing.
template <Transport T>
Execution barrier(T& link, int channel) {
    std::array<std::byte, 2> token{};
    const std::span<std::byte> bytes(token);
    return execute(link,
                   Flow<raw_bytes, DisseminationBarrier>{DisseminationBarrier(link.ranks()),
                                                         bytes.first(1), bytes.last(1), channel});
}

}  // namespace gx::collective
