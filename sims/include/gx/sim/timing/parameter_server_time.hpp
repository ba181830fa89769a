// served_step_time: time of a training step with parameter servers.
#pragma once

#include <cstdint>  // int64_t

#include <gx/core/decl.hpp>               // GX_DECL
#include <gx/core/units.hpp>              // Bytes, Nanoseconds
#include <gx/sim/hardware/machine.hpp>    // ClusterSpec
#include <gx/sim/timing/step_replay.hpp>  // StepWork

namespace gx::sim {

/// Placement and speed of parameter servers.
/// Source: keys above `split_from` elements are cut over all servers, others live on one:
///         MXNet's MXNET_KVSTORE_BIGARRAY_BOUND, 10^6 elements (its environment variables page).
struct ParameterServers {
    int servers = 1;
    BytesPerSecond own_nic{0};   ///< of a server in a machine of its own; 0: on the workers
    BytesPerSecond sum_rate{0};  ///< bytes a server adds in a second; 0: it takes no time
    std::int64_t split_from = 1'000'000;
    int element_bytes = 4;  ///< on the wire, both ways
};

struct ServedStepTiming {
    Nanoseconds step{};
    Nanoseconds exposed{};    ///< from the end of backward to the last parameter's return
    Bytes sent_per_worker{};  ///< by one worker machine's NICs, in a step
    double server_load = 0;   ///< peak load of the fullest link into or out of a server
};

/// Time of one step of all worker machines, in lock step. Keys go out as backward makes them ready;
/// the next step begins when all have come back. Messages share links as all flows do.
/// Errors: as Topology. Intended for machines of one NIC on a star; others push over NIC 0.
/// Cost:   a message for each GPU, key, and server.
[[nodiscard]] GX_DECL ServedStepTiming served_step_time(const StepWork& work,
                                                        const ClusterSpec& spec,
                                                        const ParameterServers& how);

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/timing/impl/parameter_server.ipp>
#endif
