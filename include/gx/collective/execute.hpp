// execute: runs several collectives concurrently over a transport.
#pragma once

#include <algorithm>  // copy, max
#include <array>      // flows, requests
#include <cstddef>    // size_t
#include <cstdint>    // int64_t
#include <span>       // data

#include <gx/collective/exchange.hpp>  // Collective, chunk_range
#include <gx/core/contract.hpp>        // GX_EXPECT
#include <gx/core/convert.hpp>         // accumulate
#include <gx/core/transport.hpp>       // Transport

namespace gx::collective {

/// A collective, its data, and the channel of its messages.
template <Element E, Collective C>
struct Flow {
    C collective;
    std::span<typename E::storage> data{};     ///< cut into collective.chunks() chunks
    std::span<typename E::storage> scratch{};  ///< at least as long as the largest message
    int channel = 0;
};

/// Result of execute() on this rank.
struct [[nodiscard]] Execution {
    Delivery delivery{};
    std::int64_t bytes_sent = 0;
    int steps = 0;  ///< of the longest collective
};

namespace detail {

/// State of a running flow: its step, and which half of the step is incomplete.
template <Element E, Collective C>
class Progress {
public:
    using storage = typename E::storage;

    Progress() = default;
    explicit Progress(const Flow<E, C>& flow) : flow_(&flow) {}

    /// Posts steps until one has a message to wait for; false when the collective is done.
    template <Transport T>
    bool post(T& link, std::int64_t& bytes_sent) {
        while (!sending && !receiving) {
            if (step_ == flow_->collective.steps()) return false;
            now_ = flow_->collective.exchange(link.rank(), step_++);
            const auto out = now_.to >= 0 ? chunk(now_.send_chunk) : std::span<storage>{};
            const auto in = now_.from >= 0 ? arriving() : std::span<storage>{};
            receiving = !in.empty();  // an empty chunk is empty on both sides: no message
            sending = !out.empty();
            if (receiving)
                received = link.receive(now_.from, flow_->channel, std::as_writable_bytes(in));
            if (sending) sent = link.send(now_.to, flow_->channel, std::as_bytes(out));
            bytes_sent += static_cast<std::int64_t>(out.size_bytes());
        }
        return true;
    }

    /// Both halves of the step have arrived: combines what was received.
    void combine() {
        if (now_.from < 0) return;
        const auto in = arriving(), mine = chunk(now_.receive_chunk);
        if (in.data() == mine.data()) return;
        if (now_.combine == Combine::add) gx::accumulate<E>(in, mine);
        else std::copy(in.begin(), in.end(), mine.begin());
    }

    bool sending = false, receiving = false;
    Request sent{}, received{};

private:
    [[nodiscard]] std::span<storage> chunk(int first) const {  // and those that go with it
        const auto r = chunk_range(static_cast<std::int64_t>(flow_->data.size()),
                                   flow_->collective.chunks(), first, now_.chunks);
        return flow_->data.subspan(static_cast<std::size_t>(r.begin),
                                   static_cast<std::size_t>(r.size()));
    }
    /// Where the message lands: in place when nothing there is still needed.
    [[nodiscard]] std::span<storage> arriving() const {
        const auto mine = chunk(now_.receive_chunk);
        const bool apart = now_.to < 0 || now_.send_chunk >= now_.receive_chunk + now_.chunks ||
                           now_.receive_chunk >= now_.send_chunk + now_.chunks;
        return now_.combine == Combine::copy && apart ? mine : flow_->scratch.first(mine.size());
    }

    const Flow<E, C>* flow_ = nullptr;
    int step_ = 0;
    Exchange now_{};
};

}  // namespace detail

/// Executes K collectives over one transport; every rank calls it with flows that fit together.
/// A step's message is sent from where the data lies and, in a copying step, received there too.
///
/// Order:  each flow's sums are made in its collective's own order, whatever arrives first.
/// Errors: when a wait is not complete it stops, waits for what it has posted, and returns that
///         delivery; the data is then unspecified.
/// Cost:   allocates nothing; one pass over received data for each adding step.
template <Element E, Collective C, std::size_t K, Transport T>
Execution execute(T& link, const std::array<Flow<E, C>, K>& flows) {
    static_assert(K >= 1);
    Execution done;
    std::array<detail::Progress<E, C>, K> progress;
    for (std::size_t k = 0; k < K; ++k) {
        GX_EXPECT(flows[k].collective.ranks() == link.ranks(),
                  "a collective of as many ranks as the transport has");
        progress[k] = detail::Progress<E, C>(flows[k]);
        done.steps = std::max(done.steps, flows[k].collective.steps());
    }
    std::array<Request, 2 * K> waiting;
    std::array<std::size_t, 2 * K> owner;  // 2k: flow k's receive, 2k + 1: its send
    for (;;) {
        std::size_t count = 0;
        for (std::size_t k = 0; k < K; ++k) {
            auto& p = progress[k];
            if (done.delivery.complete()) p.post(link, done.bytes_sent);
            if (p.receiving) waiting[count] = p.received, owner[count++] = 2 * k;
            if (p.sending) waiting[count] = p.sent, owner[count++] = 2 * k + 1;
        }
        if (count == 0) return done;
        const Arrival arrival = link.wait_any(std::span<const Request>(waiting).first(count));
        if (done.delivery.complete()) done.delivery = arrival.delivery;
        auto& p = progress[owner[arrival.index] / 2];
        (owner[arrival.index] % 2 == 0 ? p.receiving : p.sending) = false;
        if (!p.sending && !p.receiving && done.delivery.complete()) p.combine();
    }
}

}  // namespace gx::collective
