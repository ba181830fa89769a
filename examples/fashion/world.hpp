// FashionWorld: where gx_fashion trains: two threads, or the processes of an MPI job, where it is
// compiled as gx_fashion_openmpi or gx_fashion_mpich.
#pragma once

#if defined(GX_ON_MPI)
#include "../support/mpi_rank.hpp"  // RankWorld

inline constexpr const char* ranks_of_world = "a rank for each process of an MPI job";

using FashionWorld = RankWorld<>;
#else
#include <gx/onednn/device.hpp>    // the kernels
#include <gx/threads/threads.hpp>  // Threads

inline constexpr const char* ranks_of_world = "two ranks as threads";

using FashionWorld = gx::Threads<2, gx::onednn::Device>;
#endif
