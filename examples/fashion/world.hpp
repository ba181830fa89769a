// FashionWorld: where gx_fashion trains: two threads, or the processes of an MPI job, where it is
// compiled as gx_fashion_openmpi or gx_fashion_mpich.
#pragma once

#include <gx/onednn/device.hpp>  // the kernels
#if defined(GX_FASHION_ON_MPI)
#include <atomic>            // cores
#include <gx/mpi/world.hpp>  // World
#else
#include <gx/threads/threads.hpp>  // Threads
#endif

#if defined(GX_FASHION_ON_MPI)
inline constexpr const char* ranks_of_world = "a rank for each process of an MPI job";

/// As many threads as the rank has cores; as many lanes as the machine has, whatever the ranks: so
/// the bits are those of gx_fashion.
struct RankDevice : gx::onednn::Device {
    static inline std::atomic<int> cores = 0;
    RankDevice(const gx::Graph& graph, gx::DeviceOptions options)
        : gx::onednn::Device(graph, options, {.threads = cores}) {}
};
struct FashionWorld : gx::mpi::World<RankDevice> {
    FashionWorld()
        : gx::mpi::World<RankDevice>({.on_start = [](int n) { RankDevice::cores = n; }}) {}
};
#else
inline constexpr const char* ranks_of_world = "two ranks as threads";

using FashionWorld = gx::Threads<2, gx::onednn::Device>;
#endif
