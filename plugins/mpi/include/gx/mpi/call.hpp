// MPI's C interface, errors of its functions as gx::Error, and waits that never block inside MPI.
#pragma once

// Its C++ bindings are gone since MPI 3; these macros leave them out of both headers.
#if !defined(OMPI_SKIP_MPICXX)
#define OMPI_SKIP_MPICXX 1
#endif
#if !defined(MPICH_SKIP_MPICXX)
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <chrono>  // pauses
#include <string>  // names

#include <gx/core/decl.hpp>  // GX_DECL

namespace gx::mpi {

/// Errors: gx::Error, with MPI's own text, where `code` is not MPI_SUCCESS. `call`: what returned
///         it.
GX_DECL void expect(int code, const char* call);

/// The MPI that this program runs with, as in "Open MPI 4.1.4" or "MPICH 4.0.2".
[[nodiscard]] GX_DECL std::string library_name();

/// "MULTIPLE", "SERIALIZED", "FUNNELED" or "SINGLE".
[[nodiscard]] GX_DECL std::string thread_level_name(int level);

/// Pauses between tests of what is not done: 64 yields, then sleeps of 20 to 50 us.
///
/// A rank that waits inside MPI spins, and takes the core of the rank that it waits for: with four
/// ranks on two cores of a Xeon, a blocking MPI_Allreduce of 1 KiB took 16 ms in MPICH, and a ring
/// over tests with yields 19 us.
class Backoff {
public:
    /// `tested`: how long the test took. One that moved a part of a message took long, and then
    /// there is no reason to pause.
    GX_DECL void pause(std::chrono::nanoseconds tested = {});

private:
    int pauses_ = 0;
};

/// Tests `request` until it is done. Errors: gx::Error where `limit` passes first, which names
/// `call` as what not all ranks came to; MPI that gx has initialised is then not finalised, which
/// would wait for them.
GX_DECL void complete(MPI_Request request, const char* call, std::chrono::nanoseconds limit);

}  // namespace gx::mpi

#if defined(GX_HEADER_ONLY)
#include <gx/mpi/impl/call.ipp>
#endif
