// Watch staleness on a quadratic: two ranks descend into bowls whose mean is w*w/2, with averages
// that come on time, one step late and two. The same rate is safe, oscillates, diverges.
// Run:     build/dev/examples/03_staleness
// Prints:  update   on time    1 late    2 late
//          0          1.000     1.000     1.000
//          1          0.200     0.200     0.200
//          2          0.040    -0.600    -0.600
//          3          0.008    -0.760    -1.400
//          4          0.002    -0.280    -1.560
//          5          0.000     0.328    -1.080
//          6          0.000     0.552     0.040
//          7          0.000     0.290     1.288
//          8          0.000    -0.152     2.152
//          stable below a rate of 2.000, 1.000, 0.618; this one is 0.8

#include <cstdio>  // printf
#include <vector>  // parameters

#include <gx/reducer/double_buffered.hpp>      // DoubleBuffered
#include <gx/reducer/pipeline.hpp>             // Pipeline
#include <gx/reducer/ring.hpp>                 // Ring
#include <gx/reference/quadratic.hpp>          // Quadratic
#include <gx/sim/world/cluster.hpp>            // Cluster
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g

constexpr float rate = 0.8f;
constexpr std::uint64_t updates = 8;

/// w after 0, 1, ..., 8 updates on rank 0; rank r's bowl is centred at 1 - 2 r.
template <class Reducer>
std::vector<float> descend() {
    std::vector<float> path{1.0f};
    gx::sim::Cluster<> cluster(gx::sim::ethernet_10g(2));
    cluster.run([&](auto& rank) {
        const gx::reference::Quadratic bowl{{1.0f}, {1.0f - 2.0f * float(rank.rank())}};
        gx::Pipeline pipeline(rank.stream(), rank.transport(), {.elements = 1}, Reducer());
        std::vector<float> w{1.0f};
        const auto update = [&](std::span<const float> mean) {
            w[0] -= rate * mean[0];
            if (rank.rank() == 0) path.push_back(w[0]);
        };
        for (std::uint64_t step = 0; step < updates; ++step) {
            pipeline.begin(step)[0] = bowl.gradient(w)[0];
            pipeline.ready(0);
            if (const auto late = pipeline.collect(step)) update(late->values);
        }
        while (const auto last = pipeline.drain()) update(last->values);
    });
    return path;
}

int main() {
    using OnTime = gx::Ring<gx::fp32>;
    const auto now = descend<OnTime>();
    const auto late = descend<gx::DoubleBuffered<OnTime>>();
    const auto later = descend<gx::DoubleBuffered<gx::DoubleBuffered<OnTime>>>();
    std::printf("update   on time    1 late    2 late\n");
    for (std::size_t u = 0; u <= updates; ++u)
        std::printf("%-6zu %9.3f %9.3f %9.3f\n", u, double{now[u]}, double{late[u]},
                    double{later[u]});
    std::printf("stable below a rate of %.3f, %.3f, %.3f; this one is %.1f\n",
                gx::reference::stable_rate_times_curvature(0),
                gx::reference::stable_rate_times_curvature(1),
                gx::reference::stable_rate_times_curvature(2), double{rate});
}
