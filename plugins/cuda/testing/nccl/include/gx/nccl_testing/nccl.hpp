// NcclOptions, counters, faults: the double of NCCL as tests see it.
#pragma once

#include <cstdint>  // int64_t

#include <nccl.h>  // ncclComm_t, ncclResult_t

#include <gx/cuda_testing/runtime.hpp>  // reset, Misuse, expect_clean

namespace gx::nccl_testing {

struct NcclOptions {
    int version = NCCL_VERSION_CODE;  ///< what ncclGetVersion returns
    /// A device runs one NCCL kernel at a time. So two communicators whose kernels nothing orders
    /// can be seen to wait for each other. Without it all of them fit in the GPU.
    bool one_kernel_at_a_time = true;
    /// Most polls that find a non-blocking communicator still in progress. Up to this many, drawn
    /// from the seed, do once all ranks have divided it from another, it was given work, or its
    /// work was done behind ncclCommFinalize.
    int polls_max = 2;
    /// Ranks are processes of this machine, one in each. Set it in all of them.
    bool processes = false;
};

/// Sets the options until cuda_testing::reset(), which also forgets all communicators. Seed and
/// progress are the runtime's.
void set_options(const NcclOptions& options);

// ---- Counters --------------------------------------------------------------------------------

/// Since cuda_testing::reset(), of all ranks.
struct NcclCounters {
    std::int64_t kernels = 0;  ///< of groups, one for each communicator; those of graphs too
    std::int64_t sends = 0;
    std::int64_t sent_bytes = 0;   ///< by these
    std::int64_t collectives = 0;  ///< parts of ranks
    std::int64_t polls = 0;        ///< calls of ncclCommGetAsyncError

    bool operator==(const NcclCounters&) const = default;
    friend NcclCounters operator-(NcclCounters a, const NcclCounters& b);
};
[[nodiscard]] NcclCounters counters();

// ---- Faults ----------------------------------------------------------------------------------

/// What the other ranks of a communicator learn of a rank that died.
enum class PeersSee : unsigned char {
    nothing,      ///< they wait until they abort
    remote_error  ///< ncclCommGetAsyncError returns ncclRemoteError
};

/// The rank of `comm` dies in its k-th kernel from now on: nothing of this kernel or a later one
/// reaches its peers, and calls on `comm` return ncclSystemError, but for ncclCommAbort. k == 0: at
/// once, between two kernels.
void lose_rank(ncclComm_t comm, int k, PeersSee peers = PeersSee::nothing);
/// This process is killed in its k-th kernel from now on, of which nothing reaches its peers: for
/// ranks that are processes. 1 is the next.
void kill_process(int k);
/// ncclCommGetAsyncError on this rank returns `error` from now on; only an abort ends its kernels.
void fail_communicator(ncclComm_t comm, ncclResult_t error);
/// The k-th rank that begins to join a communicator from now on fails with `error`; 1 is the next.
/// The others wait for it.
void fail_init(int k, ncclResult_t error = ncclSystemError);
/// The k-th rank that begins to join a communicator is never heard of: all wait.
void hang_init(int k);
/// The k-th call of ncclCommInitRank or ncclCommInitRankConfig from now on returns `error`, and
/// makes none; 1 is the next.
void refuse_init(int k, ncclResult_t error = ncclInvalidUsage);
/// The next message or collective that `comm` is given returns `error`: nothing of it, or of a
/// group that it is in, is queued.
void refuse_work(ncclComm_t comm, ncclResult_t error = ncclInvalidUsage);
/// Communicators of this device that do not block and are divided from others hang. They stay in
/// progress, also where those of the other ranks, and the ones that they are divided from, are not.
void hang_part(int device);
/// Communicators with ranks on both devices fail with ncclSystemError.
void set_unreachable(int device, int other);

}  // namespace gx::nccl_testing
