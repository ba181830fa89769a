// RankDevice, RankWorld: oneDNN on the cores of an MPI rank, for examples that run under mpirun.
#pragma once

#include <atomic>  // cores

#include <gx/mpi/world.hpp>      // World
#include <gx/onednn/device.hpp>  // Device

/// As many threads as the rank has cores. `Lanes`: of oneDNN's sums, 0 as many as the machine has
/// cores, whatever the ranks; so the bits are those of a device on threads.
template <int Lanes = 0>
struct RankDevice : gx::onednn::Device {
    static inline std::atomic<int> cores = 0;
    RankDevice(const gx::Graph& graph, gx::DeviceOptions options)
        : gx::onednn::Device(graph, options, {.lanes = Lanes, .threads = cores}) {}
};

/// All processes of an MPI job, each of which computes on its share of its machine's cores.
template <int Lanes = 0>
struct RankWorld : gx::mpi::World<RankDevice<Lanes>> {
    RankWorld()
        : gx::mpi::World<RankDevice<Lanes>>(
              {.on_start = [](int cores) { RankDevice<Lanes>::cores = cores; }}) {}
};
