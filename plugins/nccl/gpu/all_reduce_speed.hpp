// AllReduceSpeed: how long reducers take over NCCL, beside ncclAllReduce in the same run.
#pragma once

#include <algorithm>  // max, min
#include <chrono>     // times
#include <cstdint>    // int64_t
#include <span>       // sizes
#include <string>     // names
#include <vector>     // rows

#include <gx/cuda/launch.hpp>         // Fill
#include <gx/memory/kernels.hpp>      // kernels of reducers
#include <gx/nccl/all_reduce.hpp>     // AllReduce
#include <gx/nccl/transport.hpp>      // Transport
#include <gx/nccl/world.hpp>          // World
#include <gx/reducer/multi_ring.hpp>  // MultiRing
#include <gx/reducer/name.hpp>        // reducer_name
#include <gx/reducer/ring.hpp>        // Ring

namespace gx::nccl {

struct AllReduceSpeed {
    std::string reducer{};  ///< or "ncclAllReduce"
    std::int64_t elements = 0, wire_bytes = 0;
    int ranks = 0;
    double seconds = 0;         ///< of one, when they follow each other on one stream
    double native_seconds = 0;  ///< of ncclAllReduce on as many elements of the wire's type

    /// Bytes a second that each GPU sends, if it sends 2 (n - 1) / n of the bucket, as a ring does.
    [[nodiscard]] double bus_bytes_per_second() const {
        return 2.0 * (ranks - 1) / ranks * double(wire_bytes) / seconds;
    }
    [[nodiscard]] double times_native() const { return seconds / native_seconds; }
};

struct AllReduceRuns {
    int in_a_row = 20;  ///< reductions that are timed together, behind one that is not
    int repetitions = 5;
};

/// On rank 0's clock: the least time of `queue_one()`, queued `in_a_row` times. All ranks call it.
template <class Queues>
double least_seconds(cuda::Queue& queue, const AllReduceRuns& runs, Queues queue_one) {
    using Clock = std::chrono::steady_clock;
    const auto wait = [&] {
        if (const Delivery d = queue.wait(queue.record()); !d.complete())
            throw LostRank({.operation = "timing an all-reduce"}, d);
    };
    double least = 1e9;
    for (int repetition = 0; repetition < runs.repetitions; ++repetition) {
        queue_one();  // the ranks begin together
        wait();
        const auto begin = Clock::now();
        for (int i = 0; i < runs.in_a_row; ++i) queue_one();
        wait();
        const std::chrono::duration<double> took = Clock::now() - begin;
        least = std::min(least, took.count() / runs.in_a_row);
    }
    return least;
}

/// Rows of R and of ncclAllReduce on its wire type, for each size. All ranks call it.
/// Memory: the largest bucket as floats and in the wire type, and what R reserves.
template <class R>
std::vector<AllReduceSpeed> all_reduce_speeds(WorldRank<NoDevice>& rank,
                                              std::span<const std::int64_t> sizes,
                                              const AllReduceRuns& runs) {
    using E = typename R::wire_type;
    using M = cuda::GpuMemory;
    Transport& link = rank.transport();
    cuda::Queue& queue = rank.stream();
    const std::int64_t largest = *std::ranges::max_element(sizes);
    Buffer<float> gradient(&rank.memory(), largest, "gradient");
    Buffer<typename E::storage> wire(&rank.memory(), largest, "wire");
    R reducer;
    ReducePlan plan = ReducePlan::whole(link.placement(), largest);
    plan.memory = &rank.memory();
    reducer.reserve(plan);
    const auto zeros = std::vector<float>(std::size_t(largest));
    queue.copy_in(std::span(zeros), gradient.template view<M>(), {"zeros"});
    launch(queue, kernels::EncodeScaled<E>{1}, ViewIn<const float, M>(gradient.template view<M>()),
           wire.template view<M>());
    std::vector<AllReduceSpeed> rows;
    for (const std::int64_t elements : sizes) {
        const auto values = gradient.template view<M>().first(std::size_t(elements));
        const auto encoded = wire.template view<M>().first(std::size_t(elements));
        AllReduceSpeed row{.reducer = reducer_name<R>(),
                           .elements = elements,
                           .wire_bytes = elements * std::int64_t(sizeof(typename E::storage)),
                           .ranks = link.ranks()};
        row.native_seconds =
            least_seconds(queue, runs, [&] { (void)link.template all_reduce<E>(encoded); });
        BucketIn<M> bucket(values);
        row.seconds = least_seconds(queue, runs, [&] {
            const ReduceReport done = reducer.all_reduce(link, bucket);
            if (!done.complete()) throw LostRank({.operation = "all-reduce"}, done.delivery);
            ++bucket.gradient;
        });
        rows.push_back(row);
    }
    return rows;
}

/// Of rank 0, over all GPUs of `options`.
template <class... R>
std::vector<AllReduceSpeed> all_reduce_speeds_of(const WorldOptions& options,
                                                 std::span<const std::int64_t> sizes,
                                                 const AllReduceRuns& runs) {
    std::vector<AllReduceSpeed> all;
    World<> world(options);
    world.run([&](auto& rank) {
        const auto keep = [&](std::vector<AllReduceSpeed> rows) {
            if (rank.rank() == 0) std::ranges::move(rows, std::back_inserter(all));
        };
        (keep(all_reduce_speeds<R>(rank, sizes, runs)), ...);
    });
    return all;
}

}  // namespace gx::nccl
