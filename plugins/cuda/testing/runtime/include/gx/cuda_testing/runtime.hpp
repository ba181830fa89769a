// RuntimeOptions, counters, faults: the double of the CUDA runtime as tests see it.
#pragma once

#include <chrono>      // patience
#include <cstddef>     // size_t
#include <cstdint>     // uint64_t
#include <functional>  // external work
#include <string>      // sentences

#include <cuda_runtime_api.h>  // cudaStream_t, cudaError_t

#include <gx/core/error.hpp>          // Error
#include <gx/cuda_testing/hooks.hpp>  // enqueue_kernel, report_access, misuse

namespace gx::cuda_testing {

/// Wrong use of the CUDA runtime: a race, freed memory, a leak, a call that the manual forbids.
/// The double is stopped behind it: calls return cudaErrorUnknown, and calls that free or destroy
/// do so without checks. It goes on with reset(), or with the next other call of the thread that
/// caught the misuse: then all queued work and open captures are dropped, and expect_clean() still
/// throws.
class Misuse : public Error {
public:
    using Error::Error;
};

/// When queued work runs.
enum class StreamProgress : unsigned char {
    late,   ///< only what a call of the host waits for: without a wait memory is stale
    eager,  ///< as soon as it can: memory that is reused too early holds the right values
    random  ///< some of it at each call, drawn from the seed
};

struct RuntimeOptions {
    std::uint64_t seed = 1;  ///< of the order of streams; see seed_shift()
    StreamProgress progress = StreamProgress::late;
    int devices = 8;  ///< 0: calls return cudaErrorNoDevice
    std::size_t device_bytes = std::size_t{2} << 30;
    int driver_version = CUDART_VERSION;  ///< less: calls return cudaErrorInsufficientDriver
    int sm = 90;                          ///< compute capability, times ten
    int first_bus = 1;        ///< PCI bus of device 0, for processes that see different GPUs
    bool peer_access = true;  ///< whether devices can access each other's memory
    bool poison = true;       ///< fills new memory with 0xff, a NaN in every floating-point format
    /// Closes pinned pages to the host while queued work uses them. A host that does not wait then
    /// ends with a named SIGSEGV. Without it such accesses are known from host_reads() and
    /// host_writes() only.
    bool watch_pinned = true;
    /// Time without calls after which a host that waits is in a deadlock. That is while nothing can
    /// run; it is in one at once if all threads of the process wait in the double.
    std::chrono::milliseconds patience{20'000};
    bool check_at_exit = true;  ///< what expect_clean() checks, at the end of the process
};

/// Default options, with seed and progress taken from GX_CUDA_SEED and GX_CUDA_PROGRESS (late,
/// eager, random) where these are set. Errors: throws gx::Error on any other text.
[[nodiscard]] RuntimeOptions options_from_environment();

/// GX_CUDA_SEED_SHIFT, 0 unless set: what is added to every seed of the runtime's double and of the
/// emulation, those that a test names too, so that all tests run in other orders.
/// Errors: throws gx::Error where it is no whole number.
[[nodiscard]] std::uint64_t seed_shift();

/// Starts anew: no device has memory, streams, errors or faults; counters are 0. The first call of
/// the runtime does this by itself.
void reset(const RuntimeOptions& options = options_from_environment());

/// Throws Misuse if a capture is open, work was never waited for, or anything was not released.
void expect_clean();

/// Sentence of the first misuse since reset(); "" if there was none.
[[nodiscard]] std::string first_misuse();

// ---- Counters --------------------------------------------------------------------------------

/// Calls since reset(). `counters() - mark` gives those since a mark.
struct RuntimeCounters {
    std::int64_t allocations = 0;            ///< device memory
    std::int64_t frees = 0;                  ///< device memory
    std::int64_t host_allocations = 0;       ///< pinned memory, and registrations
    std::int64_t host_synchronizations = 0;  ///< calls in which the host waits for a device
    std::int64_t queries = 0;
    std::int64_t copies = 0;        ///< asynchronous
    std::int64_t copied_bytes = 0;  ///< by these
    std::int64_t sets = 0;
    std::int64_t kernels = 0;  ///< launched by the host, or captured
    std::int64_t host_functions = 0;
    std::int64_t event_records = 0;
    std::int64_t event_waits = 0;
    std::int64_t graph_launches = 0;
    std::int64_t operations = 0;  ///< that ran, those of graphs too

    bool operator==(const RuntimeCounters&) const = default;
    friend RuntimeCounters operator-(RuntimeCounters a, const RuntimeCounters& b);
};
[[nodiscard]] RuntimeCounters counters();

// ---- Faults ----------------------------------------------------------------------------------

/// The k-th allocation of device or pinned memory from now on fails; 1 is the next.
void fail_allocation(int k, cudaError_t error = cudaErrorMemoryAllocation);
/// The k-th launch of a kernel or graph from now on fails. A kernel's error is what
/// cudaGetLastError() returns.
void fail_launch(int k, cudaError_t error = cudaErrorLaunchOutOfResources);
/// The k-th operation that runs from now on (copy, set or kernel) fails. Its device drops its work
/// and returns the error from every call until cudaDeviceReset().
void fail_operation(int k, cudaError_t error = cudaErrorIllegalAddress);
/// As fail_operation, at once; cudaDeviceReset() does not help.
void lose_device(int device, cudaError_t error = cudaErrorDevicesUnavailable);

// ---- What the double cannot see by itself ------------------------------------------------------

/// Accesses of the host to pinned or registered memory, for the race detector.
void host_reads(const void* begin, std::size_t bytes, const std::string& what);
void host_writes(const void* begin, std::size_t bytes, const std::string& what);
/// Names an allocation in sentences; call it before the memory is used.
void name_memory(const void* begin, const std::string& name);

/// Called when an operation that runs reports an access: a kernel's span or a tensor of cuDNN's, in
/// its whole length. Until reset(), with the double's lock held.
using AccessWatcher = std::function<void(const std::string& operation, const void* begin,
                                         std::size_t bytes, bool writes)>;
void watch_accesses(AccessWatcher watcher);

/// Queues work of another library's double. `run` is called once `ready` returns true, which is
/// asked with the double's lock held whenever the operation is at the head of its stream. `run`
/// sees the memory of the stream's device, and reports its accesses with report_access().
void enqueue_when(cudaStream_t stream, const std::string& name, std::function<bool()> ready,
                  std::function<void()> run);

}  // namespace gx::cuda_testing
