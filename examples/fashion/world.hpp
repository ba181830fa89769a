// FashionWorld: where gx_fashion trains: two threads, or the processes of an MPI job, where it is
// compiled as gx_fashion_openmpi or gx_fashion_mpich.
#pragma once

#if defined(GX_ON_MPI)
#include <gx/mpi/world.hpp>      // World
#include <gx/onednn/device.hpp>  // the kernels

inline constexpr const char* ranks_of_world = "a rank for each process of an MPI job";

using FashionWorld = gx::mpi::World<gx::onednn::Device>;
#else
#include <gx/onednn/device.hpp>    // the kernels
#include <gx/threads/threads.hpp>  // Threads

inline constexpr const char* ranks_of_world = "two ranks as threads";

using FashionWorld = gx::Threads<2, gx::onednn::Device>;
#endif
