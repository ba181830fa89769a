// Launch: rank of this process, and address of rank 0, from its launcher's environment.
#pragma once

#include <optional>     // no launcher
#include <string>       // addresses
#include <string_view>  // lists of hosts

#include <gx/core/decl.hpp>          // GX_DECL
#include <gx/core/function_ref.hpp>  // FunctionRef

namespace gx::coordination {

/// One process of a run.
struct Launch {
    std::string launcher{};  ///< "torchrun", "mpirun", "mpiexec" or "srun"
    int rank = 0, ranks = 1;
    int local_rank = -1;    ///< on its host; -1: not given
    int local_ranks = -1;   ///< of its host; -1: not given
    std::string host{};     ///< of rank 0; an IPv6 address in brackets
    std::string address{};  ///< of rank 0, for connect_to(): "tcp:HOST:PORT"
    std::string listens{};  ///< where rank 0 has its Listener
    std::string run_id{};   ///< equal on all ranks
    std::string node{};     ///< ranks of equal names share a machine; "": host_name()
    bool operator==(const Launch&) const = default;
};

/// The value of an environment variable, or nullptr.
using Environment = FunctionRef<const char*(const char* name)>;

/// Reads what a launcher has set; the first of these rows whose first variable is there counts.
///
///     torchrun   RANK, WORLD_SIZE; LOCAL_RANK, LOCAL_WORLD_SIZE; TORCHELASTIC_RUN_ID
///     mpirun     OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE (Open MPI); PMIX_NAMESPACE
///     mpiexec    MPI_LOCALRANKID, MPI_LOCALNRANKS, PMI_RANK, PMI_SIZE (MPICH's Hydra)
///     srun       SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_STEP_NODELIST, SLURM_JOB_ID
///
/// Host:   MASTER_ADDR; else the first of SLURM_STEP_NODELIST; else, where all ranks are on one
///         host, the loopback interface.
/// Port:   GX_PORT; else MASTER_PORT + 1, since torchrun may hold MASTER_PORT itself; else one of
///         20000 to 29999 that the job's number gives, where the launcher names one; else 29501.
/// Errors: gx::Error for a variable that is missing, or is not what was expected: names it.
///         nullopt where no launcher has started this process.
[[nodiscard]] GX_DECL std::optional<Launch> launch_from(Environment environment);
/// The same for this process. Errors: also where no launcher has started it.
[[nodiscard]] GX_DECL Launch launch_from_environment();

/// The rank on this host alone; nullopt where no launcher has set one.
/// Errors: gx::Error for one that is no number.
[[nodiscard]] GX_DECL std::optional<int> local_rank_from(Environment environment);

/// The first host of a list as Slurm writes it: "node03" of "node[03-05,9],login1".
/// Errors: gx::Error for text that is no such list.
[[nodiscard]] GX_DECL std::string first_host(std::string_view hosts);

}  // namespace gx::coordination

#if defined(GX_HEADER_ONLY)
#include <gx/coordination/impl/launch.ipp>
#endif
