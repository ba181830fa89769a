// execute: runs several collectives concurrently over a transport; Flow, raw_bytes.
#pragma once

#include <algorithm>  // is_sorted, max
#include <array>      // flows, requests
#include <concepts>   // same_as
#include <cstddef>    // byte, size_t
#include <cstdint>    // int64_t
#include <span>       // data

#include <gx/collective/exchange.hpp>       // Collective, chunk_range
#include <gx/collective/fused_scaling.hpp>  // FusedScaling
#include <gx/core/contract.hpp>             // GX_EXPECT
#include <gx/core/transport.hpp>            // Transport
#include <gx/memory/memory.hpp>             // ViewIn
#include <gx/memory/kernels.hpp>            // Accumulate, Copy
#include <gx/memory/queue.hpp>              // launch, StreamOrdered

namespace gx::collective {

/// What is copied and never added: bytes without a value as a number.
struct raw_bytes {
    using storage = std::byte;
};

namespace detail {
template <class C>
concept OnlyCopies = PromisingCollective<C> && !adds(C::promise);
/// Chunks need not be equal in length, but those that two ranks swap.
template <class C>
concept SwapsChunks = PromisingCollective<C> && C::promise == Promise::all_to_all;
}  // namespace detail

/// A collective of elements; or of bytes, if by its promise it only copies.
template <class E, class C>
concept Executable =
    Collective<C> && (Element<E> || (std::same_as<E, raw_bytes> && detail::OnlyCopies<C>));

/// A collective, its data in memory M, and the channel of its messages.
///
/// Shapes: chunk c of the data is chunk_range(length, chunks, c); or, if offsets are given, from
///         offsets[c] to offsets[c + 1], on every rank alike. An all-to-all takes chunks of equal
///         lengths, or offsets on each rank with lengths[i, j] = lengths[j, i].
template <class E, class C, class M = HostMemory>
    requires Executable<E, C>
struct Flow {
    C collective;
    ViewIn<typename E::storage, M> data{};     ///< cut into collective.chunks() chunks
    ViewIn<typename E::storage, M> scratch{};  ///< see scratch_elements()
    int channel = 0;
    std::span<const std::int64_t> offsets{};  ///< empty, or chunks + 1 of them, ascending
};

/// Elements of the scratch for data of `count` elements cut by chunk_range: the largest message.
/// With offsets, the largest message that they give. All-gathers, broadcasts and gathers copy in
/// place: theirs may be empty.
template <Collective C>
[[nodiscard]] constexpr std::int64_t scratch_elements(const C& c, std::int64_t count) {
    return chunk_range(count, c.chunks(), 0, message_chunks(c)).size();
}

/// Result of execute() on this rank.
struct [[nodiscard]] Execution {
    Delivery delivery{};
    std::int64_t bytes_sent = 0;
    int steps = 0;  ///< of the longest collective
};

/// Makes the sums of all-reduces of floats on the host means: by `factors` and the scaling of each
/// flow, which was reserved for its collective.
struct Scaled {
    std::span<FusedScaling> of_flow{};
    MeanFactors factors{};
};
/// Leaves a sum as it is.
struct Unscaled {};

namespace detail {

/// State of a running flow: its step, and which half of the step is incomplete.
template <class E, class C, class M>
    requires Executable<E, C>
class Progress {
public:
    using storage = typename E::storage;
    using Data = ViewIn<storage, M>;

    Progress() = default;
    explicit Progress(const Flow<E, C, M>& flow) : flow_(&flow) {}

    /// Goes to the next step; false when the collective is done.
    bool next(int rank) {
        if (step_ == flow_->collective.steps()) return false;
        now_ = flow_->collective.exchange(rank, step_++);
        out_ = now_.to >= 0 ? chunk(now_.send_chunk) : Data{};
        in_ = now_.from >= 0 ? arriving() : Data{};
        return true;
    }
    [[nodiscard]] const Exchange& now() const { return now_; }
    [[nodiscard]] Data out() const { return out_; }     ///< what the step sends; may be empty
    [[nodiscard]] Data landing() const { return in_; }  ///< where its message lands

    /// Posts steps until one has a message to wait for; false when the collective is done.
    template <Transport T, class S>
    bool post(T& link, std::int64_t& bytes_sent, std::size_t k, const S& scaling) {
        while (!sending && !receiving) {
            if (!next(link.rank())) return false;
            receiving = !in_.empty();  // an empty chunk is empty on both sides: no message
            sending = !out_.empty();
            if (receiving)
                received = link.receive(now_.from, flow_->channel, std::as_writable_bytes(in_));
            if constexpr (std::same_as<S, Scaled>)
                scaling.of_flow[k].send(now_, step_ - 1, scaling.factors, flow_->data);
            if (sending) sent = link.send(now_.to, flow_->channel, std::as_bytes(out_));
            bytes_sent += static_cast<std::int64_t>(out_.size_bytes());
        }
        return true;
    }

    /// Both halves of the step have arrived: combines what was received.
    template <class Queue>
    void combine(Queue&& queue) {
        if (now_.from < 0) return;
        const Data mine = chunk(now_.receive_chunk);
        if (same_place(in_, mine)) return;
        const ViewIn<const storage, M> in = in_;
        if constexpr (Element<E>) {
            if (now_.combine == Combine::add)
                return launch(queue, kernels::Accumulate<E>{}, in, mine);
            if (now_.combine == Combine::add_to_received) {
                launch(queue, kernels::Accumulate<E>{}, ViewIn<const storage, M>(mine), in_);
                return launch(queue, kernels::CopyValues<storage>{}, in, mine);
            }
        }
        GX_EXPECT(now_.combine == Combine::copy, "bytes are copied, not added");
        launch(queue, kernels::CopyValues<storage>{}, in, mine);
    }
    /// The same on the host, where flow k may become a mean.
    template <class S>
    void combine(std::size_t k, const S& scaling) {
        if constexpr (std::same_as<S, Scaled>)
            if (now_.from >= 0 && adds(now_.combine))
                return scaling.of_flow[k].add(now_, step_ - 1, scaling.factors, in_, flow_->data);
        combine(HostQueue{});
    }

    bool sending = false, receiving = false;
    Request sent{}, received{};

private:
    [[nodiscard]] ChunkRange range(int first) const {
        if (flow_->offsets.empty())
            return chunk_range(static_cast<std::int64_t>(flow_->data.size()),
                               flow_->collective.chunks(), first, now_.chunks);
        return {flow_->offsets[static_cast<std::size_t>(first)],
                flow_->offsets[static_cast<std::size_t>(first + now_.chunks)]};
    }
    [[nodiscard]] Data chunk(int first) const {  // and those that go with it
        const ChunkRange r = range(first);
        return flow_->data.subspan(static_cast<std::size_t>(r.begin),
                                   static_cast<std::size_t>(r.size()));
    }
    /// Where the message lands: in place when nothing there is still needed.
    [[nodiscard]] Data arriving() const {
        const Data mine = chunk(now_.receive_chunk);
        const bool apart = now_.to < 0 || now_.send_chunk >= now_.receive_chunk + now_.chunks ||
                           now_.receive_chunk >= now_.send_chunk + now_.chunks;
        if (now_.combine == Combine::copy && apart) return mine;
        GX_EXPECT(mine.size() <= flow_->scratch.size(), "a scratch that holds the largest message");
        return flow_->scratch.first(mine.size());
    }

    const Flow<E, C, M>* flow_ = nullptr;
    int step_ = 0;
    Exchange now_{};
    Data out_{}, in_{};
};

template <class E, class C, class M>
void expect_valid(const Flow<E, C, M>& flow, int ranks) {
    const auto chunks = static_cast<std::size_t>(flow.collective.chunks());
    GX_EXPECT(flow.collective.ranks() == ranks,
              "a collective of as many ranks as the transport has");
    if (flow.offsets.empty()) {
        GX_EXPECT(!SwapsChunks<C> || flow.data.size() % chunks == 0,
                  "an all-to-all swaps chunks of equal lengths: a multiple of the rank count");
        return;
    }
    GX_EXPECT(flow.offsets.size() == chunks + 1, "an offset for each chunk, and one for the end");
    GX_EXPECT(flow.offsets[0] >= 0 && std::is_sorted(flow.offsets.begin(), flow.offsets.end()) &&
                  flow.offsets[chunks] <= static_cast<std::int64_t>(flow.data.size()),
              "chunks lie one behind the other, within the data");
}

}  // namespace detail

/// Executes K collectives over one transport; every rank calls it with flows that fit together.
/// A step's message is sent from where the data lies and, in a copying step, received there too.
///
/// Order:  each flow's sums are made in its collective's own order, whatever arrives first.
/// Errors: a collective of another number of ranks, offsets that do not ascend within the data, a
///         scratch that is too short or an all-to-all of unequal chunks breaks the contract.
///         When a wait is not complete it stops, waits for what it has posted, and returns that
///         delivery; the data is then unspecified.
/// Cost:   allocates nothing; one pass over received data for each adding step.
template <class E, class C, std::size_t K, Transport T, class S = Unscaled>
    requires Executable<E, C> && (std::same_as<S, Unscaled> || std::same_as<E, fp32>)
Execution execute(T& link, const std::array<Flow<E, C>, K>& flows, const S& scaling = {}) {
    static_assert(K >= 1);
    Execution done;
    if constexpr (std::same_as<S, Scaled>)
        GX_EXPECT(scaling.of_flow.size() == K, "a scaling for each flow");
    std::array<detail::Progress<E, C, HostMemory>, K> progress;
    for (std::size_t k = 0; k < K; ++k) {
        detail::expect_valid(flows[k], link.ranks());
        progress[k] = detail::Progress<E, C, HostMemory>(flows[k]);
        if constexpr (std::same_as<S, Scaled>) {
            GX_EXPECT(flows[k].offsets.empty(), "a mean is scaled in chunks of chunk_range");
            scaling.of_flow[k].begin(flows[k].collective, link.rank());
        }
        done.steps = std::max(done.steps, flows[k].collective.steps());
    }
    std::array<Request, 2 * K> waiting;
    std::array<std::size_t, 2 * K> owner;  // 2k: flow k's receive, 2k + 1: its send
    for (;;) {
        std::size_t count = 0;
        for (std::size_t k = 0; k < K; ++k) {
            auto& p = progress[k];
            if (done.delivery.complete()) p.post(link, done.bytes_sent, k, scaling);
            if (p.receiving) waiting[count] = p.received, owner[count++] = 2 * k;
            if (p.sending) waiting[count] = p.sent, owner[count++] = 2 * k + 1;
        }
        if (count == 0) break;
        const Arrival arrival = link.wait_any(std::span<const Request>(waiting).first(count));
        if (done.delivery.complete()) done.delivery = arrival.delivery;
        const std::size_t k = owner[arrival.index] / 2;
        auto& p = progress[k];
        (owner[arrival.index] % 2 == 0 ? p.receiving : p.sending) = false;
        if (!p.sending && !p.receiving && done.delivery.complete()) p.combine(k, scaling);
    }
    if constexpr (std::same_as<S, Scaled>)
        for (std::size_t k = 0; k < K && done.delivery.complete(); ++k)
            scaling.of_flow[k].end(scaling.factors, flows[k].data);
    return done;
}

/// The same over a stream-ordered transport: queues all steps and returns at once. The flows go in
/// lockstep, all messages of a step in one group, so that the messages of two ranks meet in order.
///
/// Order:  the same sums, so the same bits.
/// Errors: as above, but a rank that is missing shows where the host waits for the queue.
/// Cost:   a group and K kernels are launched for each step.
template <class E, class C, class M, std::size_t K, StreamOrdered T>
    requires Executable<E, C>
Execution execute(T& link, const std::array<Flow<E, C, M>, K>& flows) {
    static_assert(K >= 1);
    Execution done;
    std::array<detail::Progress<E, C, M>, K> progress;
    for (std::size_t k = 0; k < K; ++k) {
        detail::expect_valid(flows[k], link.ranks());
        progress[k] = detail::Progress<E, C, M>(flows[k]);
        done.steps = std::max(done.steps, flows[k].collective.steps());
    }
    std::array<QueuedMessage<M>, 2 * K> group;
    for (int step = 0; step < done.steps; ++step) {
        std::size_t count = 0;
        std::array<bool, K> runs{};
        for (std::size_t k = 0; k < K; ++k) {
            auto& p = progress[k];
            if (!(runs[k] = p.next(link.rank()))) continue;
            if (!p.landing().empty())
                group[count++] = {.peer = p.now().from, .in = writable_bytes_of(p.landing())};
            if (!p.out().empty()) group[count++] = {.peer = p.now().to, .out = bytes_of(p.out())};
            done.bytes_sent += static_cast<std::int64_t>(p.out().size_bytes());
        }
        if (count > 0) link.exchange(std::span<const QueuedMessage<M>>(group).first(count));
        for (std::size_t k = 0; k < K; ++k)
            if (runs[k]) progress[k].combine(link.queue());
    }
    return done;
}

/// Executes one collective.
template <class E, class C, class M, class T>
    requires Executable<E, C>
Execution execute(T& link, const Flow<E, C, M>& flow) {
    return execute(link, std::array{flow});
}

}  // namespace gx::collective
