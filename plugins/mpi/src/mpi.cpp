// The ordinary functions of gx::mpi, compiled once for each MPI.
#include <gx/mpi/impl/backoff.ipp>
#include <gx/mpi/impl/call.ipp>
#include <gx/mpi/impl/guard.ipp>
#include <gx/mpi/impl/job.ipp>
#include <gx/mpi/impl/library.ipp>
#include <gx/mpi/impl/library_thread.ipp>
#include <gx/mpi/impl/transport.ipp>
