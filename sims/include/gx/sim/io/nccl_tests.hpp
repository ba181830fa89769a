// read_nccl_tests: all-reduces as nccl-tests timed them; with_measured: a cluster at their rates.
#pragma once

#include <string>       // versions
#include <string_view>  // texts
#include <vector>       // sizes

#include <gx/core/decl.hpp>             // GX_DECL
#include <gx/core/units.hpp>            // Bytes, Nanoseconds, BytesPerSecond
#include <gx/sim/hardware/machine.hpp>  // ClusterSpec

namespace gx::sim {

/// Output of all_reduce_perf.
struct NcclTests {
    struct Row {
        Bytes bytes{};  ///< of the buffer of a rank
        Nanoseconds in_place{}, out_of_place{};
    };
    std::string version{};  ///< of nccl-tests; empty: not printed, as by those of 2024 and before
    std::string library{};  ///< of NCCL, as "2.28.3"; empty: not printed
    std::string gpu{};      ///< of rank 0, as its driver names it
    int ranks = 0, hosts = 0;
    std::vector<Row> rows{};
};

/// Rates of a ring all-reduce, by its time over n ranks.
/// S bytes take 2 (n - 1) (hop + S / (n bus)).
struct RingRates {
    BytesPerSecond bus{};  ///< nccl-tests' "busbw" of very large buffers
    Nanoseconds hop{};
};

/// Reads what all_reduce_perf prints: with columns `root` and `#wrong`, as since 2022, or `error`
/// and no `root`, as before; with or without columns of single iterations and time stamps. Lines of
/// NCCL's log between them are skipped, and ranks that a launcher puts before each line (mpirun
/// --tag-output, srun -l, MPICH's mpiexec -l) are left out.
/// Errors: gx::Error with file and line: another layout of columns (another version, or `-C`), a
///         row with too few, wrong values, times or bandwidths that contradict each other, another
///         collective, a run without its end, one whose processes each ran alone.
/// Source: NVIDIA/nccl-tests src/util.cu (commit 0fdb00a), src/common.cu; doc/PERFORMANCE.md for
///         "busbw".
[[nodiscard]] GX_DECL NcclTests read_nccl_tests(std::string_view text, const std::string& file);

/// The rates of the ring that fits times in place best: least squares of relative errors, over
/// buffers from 1 MB, as gradients are reduced in.
/// Errors: gx::Error where fewer than two sizes are so large, or times do not grow with size.
[[nodiscard]] GX_DECL RingRates ring_rates(const NcclTests& tests, const std::string& file);

/// The cluster with measured rates in place of those of data sheets and profiles. Of a run on one
/// host: between the GPUs of a machine, without its wiring. Of one on several: between machines;
/// what `bus` says is shared by the machine's NICs.
/// Errors: gx::Error for another count of GPUs a host than the machine has; ring_rates.
[[nodiscard]] GX_DECL ClusterSpec with_measured(ClusterSpec c, const NcclTests& tests,
                                                const std::string& file);

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/io/impl/nccl_tests.ipp>
#endif
