// rank_order_time: the state machine of every rank of one mean.
#pragma once

#include <cstddef>  // size_t
#include <vector>   // ranks

#include <gx/collective/exchange.hpp>         // chunk_range
#include <gx/core/contract.hpp>               // GX_EXPECT
#include <gx/core/stream.hpp>                 // Task
#include <gx/sim/compute/vector_kernels.hpp>  // VectorKernels
#include <gx/sim/des/engine.hpp>              // Engine
#include <gx/sim/network/network.hpp>         // FlowNetwork, lower_cap
#include <gx/sim/timing/rank_order_time.hpp>  // RankOrderTiming
#include <gx/sim/topology/topology.hpp>       // Topology

namespace gx::sim {

namespace detail {

class RankOrderReplay {
public:
    RankOrderReplay(const ClusterSpec& spec, std::int64_t elements, int element_bytes)
        : elements_(elements),
          element_bytes_(element_bytes),
          gpus_(spec.machine.gpus),
          kernels_(spec.machine.gpu),
          network_(engine_),
          topology_(spec, network_),
          ranks_(static_cast<std::size_t>(spec.ranks())) {
        if (kernels_.fused_rate().count < network_.largest_capacity().count)
            cap_ = kernels_.fused_rate();
        for (int r = 0; r < n(); ++r) {
            ranks_[index(r)].here.assign(ranks_.size(), 0);
            ranks_[index(r)].here[index(r)] = 1;
        }
    }

    [[nodiscard]] RankOrderTiming run() {
        for (int r = 0; r < n(); ++r) after<&RankOrderReplay::push>(casts(), r);
        engine_.drain();
        for (const Rank& r : ranks_) GX_EXPECT(r.done, "every rank ends with the mean");
        return {engine_.now(), messages_, {wire_}};
    }

private:
    struct Rank {
        std::vector<char> here;  ///< contributions to its part, by rank
        std::vector<int> early;  ///< servers whose means arrived before it asked for them
        int added = 0;           ///< contributions in the sum
        int open = 0;            ///< messages of the present phase that are not done
        bool heard = false;      ///< a contribution of another rank
        bool busy = false, summed = false, asks = false, done = false;
    };

    [[nodiscard]] int n() const { return static_cast<int>(ranks_.size()); }
    static std::size_t index(int r) { return static_cast<std::size_t>(r); }
    [[nodiscard]] std::int64_t part(int r) const { return chunk_range(elements_, n(), r).size(); }

    // ---- Kernels ---------------------------------------------------------------------------
    [[nodiscard]] Nanoseconds traffic(std::int64_t count, std::int64_t bytes_each) const {
        return kernels_.time({count * bytes_each});
    }
    /// Of the whole bucket, to the wire or back.
    [[nodiscard]] Nanoseconds casts() const {
        return element_bytes_ == 4 ? Nanoseconds(0) : traffic(elements_, 4 + element_bytes_);
    }
    /// Calls step(r) after a kernel of rank r.
    template <void (RankOrderReplay::*step)(int)>
    void after(Nanoseconds kernel, int r) {
        ranks_[index(r)].busy = true;
        const auto run = [](void* self, std::uint64_t rank) {
            auto& me = *static_cast<RankOrderReplay*>(self);
            me.ranks_[rank].busy = false;
            (me.*step)(static_cast<int>(rank));
        };
        engine_.at(engine_.now() + kernel, r, {run, this, static_cast<std::uint64_t>(r)});
    }

    // ---- Messages --------------------------------------------------------------------------
    void send(int from, int to, std::int64_t count, void (*done)(void*, std::uint64_t)) {
        const Topology::Route route = topology_.route(from, to);
        ++messages_;
        if (from / gpus_ != to / gpus_) wire_ += count * element_bytes_;
        network_.start({.path = route.path,
                        .bytes = {count * element_bytes_},
                        .latency = route.latency,
                        .cap = lower_cap(route.cap, cap_),
                        .rank = from,
                        .done = {done, this,
                                 static_cast<std::uint64_t>(from) * ranks_.size() +
                                     static_cast<std::uint64_t>(to)}});
    }
    void push(int r) {
        Rank& mine = ranks_[index(r)];
        for (int i = 1; i < n(); ++i) {
            const int to = (r + i) % n();
            if (part(to) > 0) ++mine.open, send(r, to, part(to), pushed_event);
        }
        proceed(r);
    }
    static void pushed_event(void* self, std::uint64_t message) {
        auto& me = *static_cast<RankOrderReplay*>(self);
        const int from = static_cast<int>(message / me.ranks_.size()),
                  to = static_cast<int>(message % me.ranks_.size());
        --me.ranks_[index(from)].open;
        me.ranks_[index(to)].here[index(from)] = 1;
        me.ranks_[index(to)].heard = true;
        me.proceed(from);
        me.proceed(to);
    }
    /// Adds what has arrived, in order, once something has; then makes the mean.
    void proceed(int r) {
        Rank& mine = ranks_[index(r)];
        if (mine.busy || mine.summed) return;
        const std::int64_t count = part(r);
        if (count > 0 && mine.added < n()) {
            if (mine.here[index(mine.added)] == 0 || (!mine.heard && n() > 1)) return;
            const int sum = mine.added++ == 0 ? 4 : 8;  // written, or read and written
            return after<&RankOrderReplay::proceed>(traffic(count, element_bytes_ + sum), r);
        }
        if (mine.open > 0) return;
        mine.summed = true;
        after<&RankOrderReplay::pull>(traffic(count, 4 + element_bytes_), r);
    }
    void pull(int r) {
        Rank& mine = ranks_[index(r)];
        mine.asks = true;
        mine.open = 1;  // until all is posted
        for (int i = 1; i < n(); ++i) {
            const int other = (r + i) % n();
            if (part(other) > 0) ++mine.open;
            if (part(r) > 0) ++mine.open, send(r, other, part(r), pulled_event);
        }
        for (const int from : mine.early) close(from), close(r);
        close(r);
    }
    static void pulled_event(void* self, std::uint64_t message) {
        auto& me = *static_cast<RankOrderReplay*>(self);
        const int from = static_cast<int>(message / me.ranks_.size()),
                  to = static_cast<int>(message % me.ranks_.size());
        if (me.ranks_[index(to)].asks) me.close(from), me.close(to);
        else me.ranks_[index(to)].early.push_back(from);
    }
    void close(int r) {
        if (--ranks_[index(r)].open == 0) after<&RankOrderReplay::end>(casts(), r);
    }
    void end(int r) { ranks_[index(r)].done = true; }

    std::int64_t elements_;
    int element_bytes_, gpus_;
    VectorKernels kernels_;
    Engine engine_{};
    FlowNetwork network_;
    Topology topology_;
    BytesPerSecond cap_{0};
    std::vector<Rank> ranks_;
    std::uint64_t messages_ = 0;
    std::int64_t wire_ = 0;
};

}  // namespace detail

GX_DECL RankOrderTiming rank_order_time(const ClusterSpec& spec, std::int64_t elements,
                                        int element_bytes) {
    GX_EXPECT(elements > 0, "a bucket to time has elements");
    return detail::RankOrderReplay(spec, elements, element_bytes).run();
}

}  // namespace gx::sim
