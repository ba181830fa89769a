// expect: no race detector here
#include <gx/sim/world/cluster.hpp>
#include <gx/sim/catalog/simple_clusters.hpp>

int main() {
    const gx::sim::Cluster<> world(gx::sim::ethernet_10g(2), {.detect_races = true});
    return world.ranks();
}
