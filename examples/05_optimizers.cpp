// Watch four optimizers pull two layers to their target, where the gradient of one is a thousand
// times that of the other: one rate for all suits the steep layer only; AdamW gives each element a
// rate of its own, Lars each layer, and Lamb both.
// Run:     build/dev/examples/05_optimizers
// Prints:  optimizer  distance left, steep layer   flat layer   bytes an update, vectors of state
//          Sgd                                0.0 %       62.4 %                20   1
//          AdamW                              0.7 %        0.7 %                28   2
//          Lars                               0.1 %        0.1 %                28   1
//          Lamb                               0.1 %        0.1 %                44   2

#include <cmath>   // abs
#include <cstdio>  // printf
#include <vector>  // parameters

#include <gx/optimizer/adamw.hpp>        // AdamW
#include <gx/optimizer/lamb.hpp>         // Lamb
#include <gx/optimizer/lars.hpp>         // Lars
#include <gx/optimizer/sgd.hpp>          // Sgd
#include <gx/optimizer/update_cost.hpp>  // update_cost_of
#include <gx/reflect/type_name.hpp>      // type_name

template <gx::Optimizer O>
void descend(typename O::Options options, float rate) {
    constexpr float target = 2;
    const float slope[] = {1, 0.001f};  // of each layer
    gx::Graph graph;
    std::vector<gx::ParameterSlice> slices;
    for (const int layer : {0, 1}) {
        graph.parameters.push_back({.role = gx::ParameterRole::weight, .count = 4});
        slices.push_back({std::size_t(4 * layer), 4, layer});
    }
    O optimizer(options);
    optimizer.reserve(8, slices, graph);
    std::vector<float> w(8, 1.0f), gradient(8), state(8 * gx::state_vectors<O>());
    constexpr int steps = 200;
    for (int step = 0; step < steps; ++step) {
        for (std::size_t i = 0; i < 8; ++i) gradient[i] = slope[i / 4] * (w[i] - target);
        optimizer.update({.parameters = w,
                          .gradients = gradient,
                          .state = state,
                          .slices = slices,
                          .rate = rate * (1 - float(step) / steps),
                          .step = step});
    }
    constexpr gx::UpdateCost cost = gx::update_cost_of<O>();
    const auto left = [&](int i) { return double{100 * std::abs(target - w[std::size_t(i)])}; };
    std::printf("%-8s %29.1f %% %10.1f %% %17d %3d\n", gx::type_name<O>().c_str(), left(0), left(7),
                cost.bytes_per_parameter, cost.state_vectors);
}

int main() {
    std::printf(
        "optimizer  distance left, steep layer   flat layer   bytes an update, vectors of state\n");
    descend<gx::Sgd>({.weight_decay = 0}, 0.5f);
    descend<gx::AdamW>({.weight_decay = 0}, 0.02f);
    descend<gx::Lars>({.weight_decay = 0, .trust = 0.01f}, 0.1f);
    descend<gx::Lamb>({.weight_decay = 0}, 0.02f);
}
