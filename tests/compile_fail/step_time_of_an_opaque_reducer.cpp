// expect: this reducer does not say what it executes
#include <gx/model/mlp.hpp>
#include <gx/sim/machines.hpp>
#include <gx/sim/step_time.hpp>

struct Opaque : gx::archetype::Reducer {};

int main() {
    const gx::Graph graph{};
    (void)gx::sim::step_time<Opaque>(graph, gx::sim::ethernet_10g(2), {.batch = 1});
}
