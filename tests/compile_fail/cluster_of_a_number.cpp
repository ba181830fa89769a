// expect: gx: sim::Cluster(number): of which machines?
#include <gx/reference/device.hpp>
#include <gx/sim/world/cluster.hpp>

gx::sim::Cluster<gx::reference::Device> cluster(8);
