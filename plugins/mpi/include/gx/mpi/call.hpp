// MPI's C interface, its errors as gx::Error, and a wait that never blocks inside MPI.
#pragma once

// Its C++ bindings are gone since MPI 3; these macros leave them out of both headers.
#if !defined(OMPI_SKIP_MPICXX)
#define OMPI_SKIP_MPICXX 1
#endif
#if !defined(MPICH_SKIP_MPICXX)
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <chrono>  // limits
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

/// Tests `request` until it is done. Errors: gx::Error where `limit` passes first, which names
/// `call` as what not all ranks came to; MPI that gx has initialised is then not finalised, which
/// would wait for them.
GX_DECL void complete(MPI_Request request, const char* call, std::chrono::nanoseconds limit);

}  // namespace gx::mpi

#if defined(GX_HEADER_ONLY)
#include <gx/mpi/impl/call.ipp>
#endif
