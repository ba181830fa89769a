// Communicator: begins, divides and ends.
#pragma once

#include <gx/nccl/communicator.hpp>  // the declarations
#include <gx/nccl/error.hpp>         // expect

namespace gx::nccl {

GX_DECL Communicator::Communicator(const ncclUniqueId& id, int rank, int ranks) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    expect(ncclCommInitRankConfig(&comm_, ranks, id, rank, &config),
           "ncclCommInitRankConfig of rank " + std::to_string(rank));
}

GX_DECL ncclResult_t Communicator::state() {
    if (failed_ != ncclSuccess) return failed_;
    ncclResult_t state = ncclSuccess;
    const ncclResult_t polled = ncclCommGetAsyncError(comm_, &state);
    return polled == ncclSuccess ? state : polled;
}

GX_DECL void Communicator::split(int color, int key, Communicator& part) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    expect(ncclCommSplit(comm_, color, key, &part.comm_, &config), "ncclCommSplit", comm_);
}

GX_DECL void Communicator::finalize() {
    if (const ncclResult_t result = ncclCommFinalize(comm_); !goes_on(result)) failed_ = result;
}

GX_DECL void Communicator::destroy() {
    if (comm_ != nullptr) expect(ncclCommDestroy(std::exchange(comm_, nullptr)), "ncclCommDestroy");
}

}  // namespace gx::nccl
