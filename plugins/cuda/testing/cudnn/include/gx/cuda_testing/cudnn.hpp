// CudnnOptions, counters and faults: the double of cuDNN as tests see it.
#pragma once

#include <cstddef>  // size_t
#include <cstdint>  // int64_t, uint64_t

#include <cudnn.h>  // cudnnStatus_t

namespace gx::cuda_testing {

/// Whose answers the double gives to "is this graph supported?".
enum class CudnnGpu : unsigned char {
    v100,  ///< sm_70, cuDNN 9.10.2
    h100   ///< sm_90, cuDNN 9.19
};

struct CudnnOptions {
    CudnnGpu gpu = CudnnGpu::h100;
    std::uint64_t seed = 1;   ///< of the order in which the nondeterministic engine sums
    std::size_t version = 0;  ///< what cudnnGetVersion() returns; 0: of the GPU
};

/// Starts anew: no handle or descriptor exists, counters are 0, no fault is set. The runtime's
/// double is reset by its own reset(), before this one.
void reset_cudnn(const CudnnOptions& options = {});

/// Throws Misuse if a handle or a descriptor was not destroyed.
void expect_cudnn_clean();

/// Calls since reset_cudnn().
struct CudnnCounters {
    std::int64_t plans = 0;               ///< finalized, of an engine's configuration
    std::int64_t deserialized_plans = 0;  ///< finalized, of JSON
    std::int64_t executions = 0;          ///< queued or captured
    std::int64_t nondeterministic_executions = 0;
    std::int64_t tf32_executions = 0;

    bool operator==(const CudnnCounters&) const = default;
};
[[nodiscard]] CudnnCounters cudnn_counters();

/// `count` plans that are finalized from now on are refused, from the k-th on; 1 is the next.
void fail_cudnn_plan(int k, cudnnStatus_t status = CUDNN_STATUS_NOT_SUPPORTED, int count = 1);
/// The k-th execution from now on is refused by cudnnBackendExecute; nothing is queued.
void fail_cudnn_execution(int k, cudnnStatus_t status = CUDNN_STATUS_EXECUTION_FAILED);
/// The k-th call of cudnnBackendGetAttribute on a plan from now on is refused.
void fail_cudnn_answer(int k, cudnnStatus_t status = CUDNN_STATUS_NOT_SUPPORTED);
/// The k-th descriptor or handle from now on is not made.
void fail_cudnn_allocation(
    int k, cudnnStatus_t status = CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);

}  // namespace gx::cuda_testing
