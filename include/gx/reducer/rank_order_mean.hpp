// RankOrderMean<E>: servers sum parts of a bucket in rank order, by messages.
#pragma once

#include <algorithm>  // max, min
#include <array>      // groups
#include <concepts>   // same_as
#include <cstddef>    // size_t
#include <cstdint>    // int64_t
#include <span>       // buckets
#include <vector>     // requests

#include <gx/collective/direct_all_gather.hpp>      // DirectAllGather
#include <gx/collective/direct_reduce_scatter.hpp>  // DirectReduceScatter
#include <gx/collective/proof.hpp>                  // prove
#include <gx/memory/buffer.hpp>                     // Buffer
#include <gx/core/contract.hpp>                     // GX_EXPECT
#include <gx/core/transport.hpp>                    // working_on_part
#include <gx/memory/kernels.hpp>                    // EncodeScaled, Decode, DecodeAdd
#include <gx/memory/queue.hpp>                      // launch, StreamOrdered
#include <gx/reducer/concept.hpp>                   // ReduceReport, ReducePlan

namespace gx {

/// Mean over all ranks by direct messages; a part of a reducer, not one itself. S of the n ranks
/// are servers: server i is rank i n / S and has part i of the bucket, of S parts cut like chunks.
///
///     wire[i]   = E::encode(bucket[i])              on every rank, sent to the server of i
///     sum       = E::decode(wire_0[i]) + ... + E::decode(wire_n-1[i])         in float, on it
///     wire[i]   = E::encode(sum * (1 / n))          sent to all ranks
///     bucket[i] = E::decode(wire[i])                on every rank, the server included
///
/// Order:  from rank 0 up, whatever arrives first. The bits depend on the rank count; not on where
///         buckets are cut, the number of servers, the world, timing or placement.
/// Wire:   a server receives w = min(n - 1, max(2, S), 64) contributions at once and adds them
///         before it receives more, so (n - 1) / w rounds, rounded up: 1 where all ranks serve, up
///         to 65 of them. Means go back 64 messages at once; over a stream-ordered transport
///         contributions come so, too. All ranks serving, each sends
///         2 (n - 1) / n of the bucket; one serving, it sends n - 1 buckets and the others 1.
/// Errors: incomplete when a rank is missing; a bucket larger than reserved breaks the contract.
/// Cost:   a bucket in E (none where E is fp32), a part in float and w parts in E; in the memory of
///         a device n - 1 parts. A step allocates nothing.
template <Element E>
class RankOrderMean {
public:
    using storage = typename E::storage;

    /// `servers`: 0, or more than ranks: all ranks.
    void reserve(const ReducePlan& plan, int servers = 0) {
        GX_EXPECT(plan.bucket_elements >= 0, "a bucket has at least 0 elements");
        GX_EXPECT(servers >= 0, "at least one server, or 0 for all ranks");
        const int n = plan.placement.ranks();
        placement_ = plan.placement;
        elements_ = plan.bucket_elements;
        servers_ = servers == 0 ? n : std::min(servers, n);
        receive_window_ = std::min({n - 1, std::max(2, servers_), most_in_flight});
        send_window_ = std::min(n - 1, most_in_flight);
        if (n <= collective::ranks_proved_at_start) {
            expect(collective::prove(collective::DirectReduceScatter(n)));
            expect(collective::prove(collective::DirectAllGather(n)));
        }
        part_ = chunk_range(elements_, servers_, 0).size();
        if (plan.on_device()) receive_window_ = std::max(1, n - 1);  // one group has all
        sum_ = {plan.memory, part_, "sum"};
        slots_ = {plan.memory, part_ * receive_window_, "received parts"};
        if constexpr (!in_place) wire_ = {plan.memory, elements_, "wire"};
        arrived_.assign(static_cast<std::size_t>(n), 0);
        open_.reserve(static_cast<std::size_t>(2 * most_in_flight));
        from_.reserve(open_.capacity());
    }

    ReduceReport all_reduce(Transport auto& link, std::span<float> bucket) {
        GX_EXPECT(link.placement() == placement_, "reserve() for the placement it will run on");
        GX_EXPECT(std::ssize(bucket) <= elements_, "a bucket larger than was reserved");
        working_on_part(link, in_place ? "" : "MEMCPY_IN_FUSION_BUFFER");
        const std::span<storage> wire = pack(link, bucket);
        working_on_part(link, "");
        ReduceReport done;
        push(link, wire, done);
        if (done.complete()) pull(link, wire, done);
        if (!done.complete()) return done;
        const int n = placement_.ranks();
        if (n > 1) done.steps = rounds(n - 1, receive_window_) + rounds(n - 1, most_in_flight);
        working_on_part(link, in_place ? "" : "MEMCPY_OUT_FUSION_BUFFER");
        if constexpr (!in_place)
            launch(queue_of(link), kernels::Decode<E>{}, std::span<const storage>(wire), bucket);
        working_on_part(link, "");
        return done;
    }

    /// The same, queued: up to 64 messages each way in a group, and so two groups up to 65 ranks.
    template <StreamOrdered T>
    ReduceReport all_reduce(T& link, ViewIn<float, memory_of<T>> bucket) {
        using M = memory_of<T>;
        using Wire = ViewIn<storage, M>;
        using Read = ViewIn<const storage, M>;
        GX_EXPECT(link.placement() == placement_, "reserve() for the placement it will run on");
        GX_EXPECT(static_cast<std::int64_t>(bucket.size()) <= elements_,
                  "a bucket larger than was reserved");
        const int n = placement_.ranks(), rank = link.rank();
        Wire wire;
        if constexpr (in_place) {
            wire = bucket;
        } else {
            wire = wire_.template view<M>().first(bucket.size());
            launch(link.queue(), kernels::EncodeScaled<E>{}, ViewIn<const float, M>(bucket), wire);
        }
        const auto part_of = [&](int r) {
            const ChunkRange range = served(r, static_cast<std::int64_t>(wire.size()));
            return wire.subspan(static_cast<std::size_t>(range.begin),
                                static_cast<std::size_t>(range.size()));
        };
        const Wire mine = part_of(rank);
        const auto slot_of = [&](int from) {
            return slots_.template view<M>().subspan(
                static_cast<std::size_t>(position(from, rank)) * static_cast<std::size_t>(part_),
                mine.size());
        };
        ReduceReport done;
        if (n > 1) done.steps = 2 * rounds(n - 1, most_in_flight);
        // All ranks cut the steps alike, so that messages that belong together are in one group.
        const auto exchange = [&](const auto& direct, auto out_to, auto in_from) {
            std::array<QueuedMessage<M>, std::size_t{2} * most_in_flight> group;
            std::size_t count = 0;
            for (int step = 0; step + 1 < n; ++step) {
                const Exchange e = direct.exchange(rank, step);
                const Wire in = in_from(e.from), out = out_to(e.to);
                if (!in.empty()) group[count++] = {.peer = e.from, .in = writable_bytes_of(in)};
                if (!out.empty()) group[count++] = {.peer = e.to, .out = bytes_of(out)};
                done.bytes_sent += static_cast<std::int64_t>(out.size_bytes());
                if ((step + 1) % most_in_flight != 0 && step + 2 < n) continue;
                if (count > 0) link.exchange(std::span<const QueuedMessage<M>>(group).first(count));
                count = 0;
            }
        };
        exchange(collective::DirectReduceScatter(n), part_of,
                 [&](int from) { return mine.empty() ? Wire{} : slot_of(from); });
        if (!mine.empty()) {
            const auto sum = sum_.template view<M>().first(mine.size());
            for (int r = 0; r < n; ++r) {
                const Read contribution = r == rank ? mine : slot_of(r);
                if (r == 0) launch(link.queue(), kernels::Decode<E>{}, contribution, sum);
                else launch(link.queue(), kernels::DecodeAdd<E>{}, contribution, sum);
            }
            launch(link.queue(), kernels::EncodeScaled<E>{1.0f / static_cast<float>(n)},
                   ViewIn<const float, M>(sum), mine);
        }
        exchange(collective::DirectAllGather(n), [&](int) { return mine; }, part_of);
        if constexpr (!in_place) launch(link.queue(), kernels::Decode<E>{}, Read(wire), bucket);
        return done;
    }

    /// Part of `count` elements that `rank` serves; empty where it is no server.
    [[nodiscard]] ChunkRange served(int rank, std::int64_t count) const {
        const int n = placement_.ranks();
        const int i = static_cast<int>((std::int64_t{rank} * servers_ + n - 1) / n);
        if (i >= servers_ || server(i) != rank) return {};
        return chunk_range(count, servers_, i);
    }
    [[nodiscard]] int servers() const { return servers_; }
    /// The rank of server i.
    [[nodiscard]] int server(int i) const {
        return static_cast<int>(std::int64_t{i} * placement_.ranks() / servers_);
    }

private:
    static constexpr bool in_place = std::same_as<E, fp32>;
    static constexpr int most_in_flight = 64;  // a rank of Threads has at most 1024 requests open
    static constexpr int sent = -1;            // in from_

    static constexpr int rounds(int messages, int at_once) {
        return (messages + at_once - 1) / at_once;
    }
    static void expect(const collective::Proof& proof) {
        GX_EXPECT(proof.holds(), proof.sentence());
    }
    std::span<storage> pack([[maybe_unused]] auto& link, std::span<float> bucket) {
        if constexpr (in_place) return bucket;
        else {
            const std::span<storage> wire = wire_.view().first(bucket.size());
            launch(queue_of(link), kernels::EncodeScaled<E>{}, std::span<const float>(bucket),
                   wire);
            return wire;
        }
    }
    [[nodiscard]] std::span<storage> part(std::span<storage> wire, int rank) const {
        const ChunkRange r = served(rank, std::ssize(wire));
        return wire.subspan(static_cast<std::size_t>(r.begin), static_cast<std::size_t>(r.size()));
    }
    [[nodiscard]] std::span<storage> slot(int rank, std::size_t length) {
        const auto window = static_cast<std::size_t>(receive_window_);
        const auto stride = static_cast<std::size_t>(part_);
        return slots_.view().subspan(static_cast<std::size_t>(rank) % window * stride, length);
    }

    void post_send(auto& link, int to, std::span<const storage> message, ReduceReport& done) {
        open_.push_back(link.send(to, 0, std::as_bytes(message)));
        from_.push_back(sent);
        done.bytes_sent += static_cast<std::int64_t>(message.size_bytes());
    }
    void post_receive(auto& link, int from, std::span<storage> message) {
        open_.push_back(link.receive(from, 0, std::as_writable_bytes(message)));
        from_.push_back(from);
    }
    /// Waits for one message; the rank that it came from, or `sent`.
    int wait_for_one(auto& link, ReduceReport& done) {
        const Arrival arrival = link.wait_any(open_);
        if (done.complete()) done.delivery = arrival.delivery;
        const int from = from_[arrival.index];
        open_[arrival.index] = open_.back(), open_.pop_back();
        from_[arrival.index] = from_.back(), from_.pop_back();
        return from;
    }

    /// Every rank's parts go to their servers, which sum them: the reduce-scatter.
    void push(auto& link, std::span<storage> wire, ReduceReport& done) {
        const int n = placement_.ranks(), rank = link.rank();
        const collective::DirectReduceScatter c(n);
        const std::span<storage> mine = part(wire, rank);
        std::fill(arrived_.begin(), arrived_.end(), char{0});
        arrived_[static_cast<std::size_t>(rank)] = 1;
        int step = 0, next = mine.empty() ? n : 0, added = next, sending = 0, receiving = 0;
        for (;;) {
            if (done.complete()) {
                for (; step < c.steps() && sending < send_window_; ++step) {
                    const int to = c.exchange(rank, step).to;
                    const auto message = part(wire, to);
                    if (message.empty()) continue;
                    post_send(link, to, message, done);
                    ++sending;
                }
                for (int all = receiving == 0 ? receive_window_ : 0; next < n && all > 0; ++next) {
                    if (next == rank) continue;
                    post_receive(link, next, slot(position(next, rank), mine.size()));
                    ++receiving, --all;
                }
            }
            if (open_.empty()) break;
            const int from = wait_for_one(link, done);
            if (from == sent) {
                --sending;
            } else {
                arrived_[static_cast<std::size_t>(from)] = 1;
                for (; added < n && arrived_[static_cast<std::size_t>(added)] != 0; ++added) {
                    add(link, added,
                        added == rank ? mine : slot(position(added, rank), mine.size()));
                    if (added != rank) --receiving;
                }
            }
        }
        if (mine.empty() || !done.complete()) return;
        if (n == 1) add(link, 0, mine);
        launch(queue_of(link), kernels::EncodeScaled<E>{1.0f / static_cast<float>(n)},
               std::span<const float>(sum_.view().first(mine.size())), mine);
    }
    /// `from`'s place among the other ranks of `rank`.
    [[nodiscard]] static int position(int from, int rank) { return from < rank ? from : from - 1; }
    void add(auto& link, int rank, std::span<const storage> contribution) {
        const auto sum = sum_.view().first(contribution.size());
        if (rank == 0) launch(queue_of(link), kernels::Decode<E>{}, contribution, sum);
        else launch(queue_of(link), kernels::DecodeAdd<E>{}, contribution, sum);
    }

    /// Every server's mean goes to all ranks: the all-gather.
    void pull(auto& link, std::span<storage> wire, ReduceReport& done) {
        const int rank = link.rank();
        const collective::DirectAllGather c(placement_.ranks());
        const std::span<storage> mine = part(wire, rank);
        int step = 0;
        for (;;) {
            for (;
                 done.complete() && step < c.steps() && std::ssize(open_) + 2 <= 2 * most_in_flight;
                 ++step) {
                const Exchange e = c.exchange(rank, step);
                const auto in = part(wire, e.from);
                if (!in.empty()) post_receive(link, e.from, in);
                if (!mine.empty()) post_send(link, e.to, mine, done);
            }
            if (open_.empty()) return;
            (void)wait_for_one(link, done);
        }
    }

    Placement placement_{0, 0};
    std::int64_t elements_ = 0, part_ = 0;
    int servers_ = 1, receive_window_ = 0, send_window_ = 0;
    Buffer<float> sum_;
    Buffer<storage> wire_, slots_;
    std::vector<char> arrived_;
    std::vector<Request> open_;  ///< posted and not waited for
    std::vector<int> from_;      ///< of each: the rank, or `sent`
};

}  // namespace gx
