// MPI's life in this process: who initialises it, with which thread level, and who ends it.
#pragma once

#include <string>  // names

#include <gx/coordination/launch.hpp>  // Environment
#include <gx/core/decl.hpp>            // GX_DECL
#include <gx/mpi/call.hpp>             // MPI

namespace gx::mpi {

/// Initialises MPI with MPI_THREAD_MULTIPLE, unless it is initialised, and returns the thread level
/// that it has. MPI that was initialised here is finalised when the process exits.
/// Errors: gx::Error for a level below SERIALIZED, for MPI that is finalised, and, where it is
///         initialised here, those of expect_launcher() and expect_its_launcher().
GX_DECL int start_library();

/// MPI_Finalize is not called: it would wait for a rank that is lost.
GX_DECL void leave_library_open();

/// Errors: gx::Error where no launcher has started this process. `library`: the MPI's name.
GX_DECL void expect_launcher(coordination::Environment environment, const std::string& library);

/// Errors: gx::Error where the launcher has started several processes, and MPI_COMM_WORLD has one,
///         as below the launcher of another MPI. `world_size`: of MPI_COMM_WORLD.
GX_DECL void expect_its_launcher(coordination::Environment environment, int world_size,
                                 const std::string& library);

/// Errors: gx::Error for a level below MPI_THREAD_SERIALIZED.
GX_DECL void expect_thread_level(int level);

}  // namespace gx::mpi

#if defined(GX_HEADER_ONLY)
#include <gx/mpi/impl/library.ipp>
#endif
