// MPI's life in this process: who initialises and ends it, and its thread level.
#pragma once

#include <chrono>  // a limit
#include <string>  // names

#include <gx/coordination/launch.hpp>  // Environment
#include <gx/core/decl.hpp>            // GX_DECL
#include <gx/mpi/call.hpp>             // MPI
#include <gx/mpi/library_thread.hpp>   // in_library

namespace gx::mpi {

/// Which threads may call MPI.
struct Threading {
    int level = 0;                  ///< that MPI has
    bool on_callers_alone = false;  ///< on the thread of the user's MPI_Init_thread: FUNNELED
};

/// Initialises MPI on a thread of its own, unless it is initialised. MPI that was initialised here
/// is finalised there when the process exits, once all ranks are at their exits.
/// `wanted`: the thread level that MPI is asked for. Where MPI_Init_thread waits for other ranks
/// longer than `limit`, the process ends (CallLimit), and so it does where MPI_Finalize then does.
/// Errors: gx::Error for level SINGLE, for MPI that is finalised, for a user's MPI of level
///         FUNNELED on another thread than its own, and, where MPI is initialised here, those of
///         expect_launcher() and expect_its_launcher().
GX_DECL Threading start_library(int wanted = MPI_THREAD_MULTIPLE,
                                std::chrono::nanoseconds limit = std::chrono::seconds(60));

/// Whether MPI was initialised here, and is finalised when the process exits.
[[nodiscard]] GX_DECL bool finalizes_library();
/// What is called then, or in a call of MPI_Finalize by the program itself, before that waits:
/// returns whether all ranks have met, so that none is long in coming; it may leave_library_open().
GX_DECL void before_finalize(bool (*f)());

/// MPI_Finalize is not called: it would wait for a rank that is lost.
GX_DECL void leave_library_open();

/// What carries MPI's messages, as far as it costs nothing to know: MPICH's device, and what the
/// environment sets of this MPI, as in "its device ch4:ucx, UCX_TLS=tcp" or "OMPI_MCA_btl=tcp".
/// Another MPI's settings, and those of a library that MPICH's device does not use, are left out.
[[nodiscard]] GX_DECL std::string transport_name(coordination::Environment environment);

/// Errors: gx::Error where no launcher has started this process. `library`: the MPI's name.
GX_DECL void expect_launcher(coordination::Environment environment, const std::string& library);

/// Errors: gx::Error where the launcher has started several processes, and MPI_COMM_WORLD has one,
///         as below the launcher of another MPI. `world_size`: of MPI_COMM_WORLD.
GX_DECL void expect_its_launcher(coordination::Environment environment, int world_size,
                                 const std::string& library);

/// Errors: gx::Error for a level below MPI_THREAD_FUNNELED.
GX_DECL void expect_thread_level(int level);

/// `what`: what is to come before MPI_Finalize, as "make the world".
/// Errors: gx::Error where MPI is finalised already.
GX_DECL void expect_not_finalized(const char* what);

/// Errors: gx::Error on another thread than that of the user's MPI_Init_thread, at level FUNNELED.
GX_DECL void expect_main_thread();

}  // namespace gx::mpi

#if defined(GX_HEADER_ONLY)
#include <gx/mpi/impl/library.ipp>
#endif
