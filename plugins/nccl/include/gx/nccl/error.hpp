// expect: turns what an NCCL call returned into gx::Error with NCCL's text and a remedy.
#pragma once

#include <string>  // what was called

#include <nccl.h>  // ncclResult_t

#include <gx/core/decl.hpp>  // GX_DECL

namespace gx::nccl {

/// Whether work goes on: ncclSuccess, or ncclInProgress of a non-blocking communicator.
[[nodiscard]] constexpr bool goes_on(ncclResult_t result) {
    return result == ncclSuccess || result == ncclInProgress;
}

/// Whether a rank, its GPU or the network failed, and no argument of the call was wrong.
[[nodiscard]] constexpr bool is_failure(ncclResult_t result) {
    return result == ncclUnhandledCudaError || result == ncclSystemError ||
           result == ncclRemoteError || result == ncclInternalError;
}

/// Throws unless the work goes on. `call` names what was called, and its arguments that matter.
/// Errors: gx::Error: "ncclCommInitRankConfig of rank 1: invalid usage (...). ..."
GX_DECL void expect(ncclResult_t result, const std::string& call, ncclComm_t comm = nullptr);

/// Throws unless the NCCL that is loaded has the interface that gx was compiled with: the same
/// major version, and a minor version that is not older.
GX_DECL void expect_version();

}  // namespace gx::nccl

#if defined(GX_HEADER_ONLY)
#include <gx/nccl/impl/error.ipp>
#endif
