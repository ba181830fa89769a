// The runs on threads and on a simulated cluster.
#include "training.hpp"

#include <gx/core/error.hpp>
#include <gx/sim/catalog/cluster_of.hpp>
#include <gx/sim/catalog/simple_clusters.hpp>
#include <gx/sim/world/cluster.hpp>
#include <gx/sim/world/device.hpp>

namespace gx::mpi_tests {

namespace {

template <class T>
RunRecord on_both(const T& trainer, Placement placement, const Split& data) {
    ThreadWorld<reference::Device> threads({.placement = placement});
    const RunRecord record = trainer.train(threads, data);
    if (!placement.regular()) return record;  // simulated machines have equally many GPUs
    sim::Cluster<reference::Device> cluster(sim::cluster_of(
        sim::with_gpus(sim::v100_octet(), placement.ranks_per_machine), placement.machines));
    const RunRecord simulated = trainer.train(cluster, data);
    if (simulated.ranks != placement.ranks() || simulated.clock != "virtual")
        throw Error("the cluster has other ranks, or no virtual clock");
    if (simulated.weights_hash != record.weights_hash)
        throw Error("a simulated cluster has other weights than threads");
    return record;
}

}  // namespace

RunRecord elsewhere(const Composition& trainer, Placement placement, const Split& data) {
    return on_both(trainer, placement, data);
}
RunRecord elsewhere(const Late& trainer, Placement placement, const Split& data) {
    return on_both(trainer, placement, data);
}
RunRecord elsewhere(const Shared& trainer, Placement placement, const Split& data) {
    return on_both(trainer, placement, data);
}

}  // namespace gx::mpi_tests
