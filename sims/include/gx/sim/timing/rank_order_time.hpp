// rank_order_time: time of a RankOrderMean (ParameterServer, SharedMemory) on a simulated network.
#pragma once

#include <cstdint>  // int64_t

#include <gx/core/decl.hpp>             // GX_DECL
#include <gx/core/units.hpp>            // Bytes, Nanoseconds
#include <gx/sim/hardware/machine.hpp>  // ClusterSpec

namespace gx::sim {

struct RankOrderTiming {
    Nanoseconds time{};          ///< all ranks starting at once, to the end of the last one
    std::uint64_t messages = 0;  ///< of all ranks
    Bytes wire{};                ///< of these, between machines
};

/// Time of the mean of one bucket of `elements` over all ranks, each of which serves its part:
///
///     pack:  a cast of the bucket, unless a message's element has 4 bytes
///     push:  n - 1 parts leave at once; a server adds what arrived, in the order of the ranks
///     pull:  once its part is summed and its own parts have arrived, it goes to the n - 1 others
///     unpack
///
/// with the kernels that RankOrderMean launches, as on a sim::Cluster.
/// Errors: as Topology.
/// Cost:   2 n (n - 1) messages. Up to 65 ranks all are in flight at once, as with data; beyond,
///         RankOrderMean holds some back, which is not modelled.
[[nodiscard]] GX_DECL RankOrderTiming rank_order_time(const ClusterSpec& spec,
                                                      std::int64_t elements, int element_bytes);

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/timing/impl/rank_order.ipp>
#endif
