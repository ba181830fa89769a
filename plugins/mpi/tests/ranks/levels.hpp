// Ranks of several hosts with memory of each host: modes of rank.cpp.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gx/collective/dissemination_barrier.hpp>
#include <gx/hierarchical/reducer.hpp>
#include <gx/memory/buffer.hpp>
#include <gx/mpi/world.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/shared_memory/reducer.hpp>
#include <gx/testing/rows.hpp>
#include <gx/threads/threads.hpp>

#include <support/interface_bytes.hpp>

namespace gx::mpi_tests {

using OnePassInside = Hierarchical<SharedMemory<>, Ring<fp32>>;

/// One pass among the ranks of each host, on gradients in its memory and elsewhere: the bits of
/// threads, no message inside a host, and on its interface the ring's bytes between hosts.
inline std::string levels(mpi::World<>& world) {
    const Placement placement = world.placement();
    const int hosts = placement.machines, near = placement.ranks_per_machine;
    const std::int64_t length = 600'000;
    const std::int64_t ring = length / near * std::int64_t{sizeof(float)} / hosts * 2 * (hosts - 1);
    const auto rows = testing::wide_magnitudes(3, world.ranks(), length);
    std::vector<float> mean(static_cast<std::size_t>(length));
    ThreadWorld<>({.placement = placement}).run([&](auto& rank) {
        std::vector<float> row = rows[static_cast<std::size_t>(rank.rank())];
        OnePassInside reducer;
        reducer.reserve(ReducePlan::whole(placement, length));
        (void)reducer.all_reduce(rank.transport(), Bucket(row));
        if (rank.rank() == 0) mean = row;
    });
    std::string text;
    world.run([&](auto& rank) {
        auto& link = rank.transport();
        if (link.shares_memory()) text += "all hosts share memory; ";
        if (!machine_shares_memory(link)) throw Error("the ranks of a host share no memory");
        Buffer<float> inside(shared_buffers(link), length, "inside");
        std::vector<float> outside = rows[static_cast<std::size_t>(rank.rank())];
        std::ranges::copy(outside, inside.view().begin());
        OnePassInside reducer;
        reducer.reserve(ReducePlan::whole(placement, length));
        for (const std::span<float> values : {inside.view(), std::span(outside)}) {
            (void)collective::barrier(link, control_channel);
            const auto before = testing_support::interface_bytes();
            const ReduceReport report = reducer.all_reduce(link, Bucket(values));
            (void)collective::barrier(link, control_channel);
            const auto carried = testing_support::interface_bytes() - before;
            if (!report.complete() || report.bytes_sent != ring)
                text += "the reducer sent " + std::to_string(report.bytes_sent) +
                        " bytes in place of " + std::to_string(ring) + "; ";
            for (const std::int64_t bytes : {carried.sent, carried.received})
                if (bytes < near * ring || bytes > near * ring * 5 / 4)
                    text += "the interface carried " + std::to_string(bytes) + " bytes; ";
            if (!std::ranges::equal(values, mean, {}, std::bit_cast<std::uint32_t, float>,
                                    std::bit_cast<std::uint32_t, float>))
                text += "values differ; ";
        }
    });
    return text.empty() ? std::to_string(hosts) + " hosts of " + std::to_string(near) +
                              " ranks, the bits of threads"
                        : text;
}

/// The last rank returns, and the others of its host meet without it. Returns whom each misses.
inline std::string last_rank_leaves(mpi::World<>& world) {
    std::string missed;
    try {
        world.run([&](auto& rank) {
            if (rank.rank() == rank.ranks() - 1) return;
            std::vector<float> values(100);
            OnePassInside reducer;
            reducer.reserve(ReducePlan::whole(world.placement(), 100));
            rank.transport().working_on({"all-reduce", 7, 0});
            const ReduceReport report = reducer.all_reduce(rank.transport(), Bucket(values));
            missed = "misses rank " + std::to_string(report.delivery.peer);
        });
    } catch (const Error& e) {
        missed += std::string(", ") + e.what();
    }
    return missed;
}

}  // namespace gx::mpi_tests
