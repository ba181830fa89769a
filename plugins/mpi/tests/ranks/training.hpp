// Compositions that ranks train, and the same runs on threads and on a simulated cluster: compiled
// once for both MPIs.
#pragma once

#include <gx/core/transport.hpp>           // Placement
#include <gx/reducer/bucketed.hpp>         // Bucketed
#include <gx/reducer/double_buffered.hpp>  // DoubleBuffered
#include <gx/reducer/multi_ring.hpp>       // MultiRing
#include <gx/reducer/ring.hpp>             // Ring
#include <gx/shared_memory/reducer.hpp>    // SharedMemory
#include <gx/trainer/trainer.hpp>          // Trainer

#include <trainer/small.hpp>  // Net

namespace gx::mpi_tests {

template <class R>
using Small = Trainer<testing_support::Net, R, Warmup<Poly<2>>>;
using Composition = Small<Bucketed<MultiRing<2, fp16>, 64>>;
using Late = Small<DoubleBuffered<Ring<fp32>>>;
using Shared = Small<SharedMemory<fp32>>;

/// The record of that run on threads. Errors: gx::Error where ranks of a simulated cluster, placed
/// alike, end with other weights.
RunRecord elsewhere(const Composition& trainer, Placement placement, const Split& data);
RunRecord elsewhere(const Late& trainer, Placement placement, const Split& data);
RunRecord elsewhere(const Shared& trainer, Placement placement, const Split& data);

}  // namespace gx::mpi_tests
