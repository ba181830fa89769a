// expect: this reducer does not declare its collectives
#include <gx/model/mlp.hpp>
#include <gx/sim/catalog/simple_clusters.hpp>
#include <gx/sim/timing/step_time.hpp>

struct Opaque : gx::archetype::Reducer {};

int main() {
    const gx::Graph graph{};
    (void)gx::sim::step_time<Opaque>(graph, gx::sim::ethernet_10g(2), {.batch = 1});
}
