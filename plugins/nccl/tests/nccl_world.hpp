// What the tests of the plugin share: a fresh double, and reductions on an nccl::World.
#pragma once

#include <cstdint>  // seeds
#include <vector>   // rows

#include <gx/cuda/launch.hpp>           // launch
#include <gx/cuda_testing/runtime.hpp>  // reset
#include <gx/nccl/world.hpp>            // World
#include <gx/nccl_testing/nccl.hpp>     // faults
#include <gx/testing/worlds.hpp>        // Outcome, Rows

namespace gx::nccl_tests {

using cuda_testing::StreamProgress;
constexpr StreamProgress every_progress[] = {StreamProgress::late, StreamProgress::eager,
                                             StreamProgress::random};

inline void start(StreamProgress progress, std::uint64_t seed, int devices = 8) {
    cuda_testing::reset({.seed = seed, .progress = progress, .devices = devices});
}

/// Consecutive reductions, each copied in, reduced and copied out. Rank `dead_rank` takes no part;
/// `waited` gets what each rank's last wait returned.
template <class R>
testing::Outcome reduce_jobs_on_nccl(std::vector<testing::Rows> jobs, Placement placement,
                                     int dead_rank = -1, std::vector<Delivery>* waited = nullptr) {
    nccl::World<> world({.placement = placement});
    std::size_t largest = 0;
    for (const auto& rows : jobs) largest = std::max(largest, rows[0].size());
    std::vector<std::vector<ReduceReport>> reports(
        jobs.size(), std::vector<ReduceReport>(static_cast<std::size_t>(placement.ranks())));
    const auto on_rank = [&](auto& rank) {
        if (rank.rank() == dead_rank) return;
        const auto r = static_cast<std::size_t>(rank.rank());
        Buffer<float> gradient(&rank.memory(), static_cast<std::int64_t>(largest), "gradient");
        R reducer;
        ReducePlan plan = ReducePlan::whole(placement, static_cast<std::int64_t>(largest));
        plan.memory = &rank.memory();
        reducer.reserve(plan);
        cuda::Queue& queue = rank.stream();
        for (std::size_t j = 0; j < jobs.size(); ++j) {
            std::vector<float>& row = jobs[j][r];
            const auto values = gradient.template view<cuda::GpuMemory>().first(row.size());
            queue.copy_in(std::span<const float>(row), values, {"load"});
            BucketIn<cuda::GpuMemory> bucket(values);
            bucket.gradient = j;
            reports[j][r] = reducer.all_reduce(rank.transport(), bucket);
            queue.copy_out(ViewIn<const float, cuda::GpuMemory>(values), std::span(row), {"store"});
            const Delivery done = queue.wait(queue.record());
            if (waited != nullptr) (*waited)[r] = done;
            if (!done.complete()) throw LostRank({.rank = rank.rank()}, done);
        }
    };
    try {
        world.run(on_rank);
    } catch (const LostRank&) {
        if (dead_rank < 0) throw;
    }
    return {std::move(jobs), std::move(reports)};
}

template <class R>
testing::Rows reduce_on_nccl(const testing::Rows& rows, Placement placement) {
    return reduce_jobs_on_nccl<R>({rows}, placement).rows[0];
}

}  // namespace gx::nccl_tests
