// The headline program with a small network on the reference device, which needs no oneDNN: real
// gradients on four simulated machines.
#include <cstdio>  // printf

#include <gx/loader/synthetic.hpp>             // synthetic
#include <gx/model/lenet.hpp>                  // LeNet
#include <gx/model/resnet.hpp>                 // ResNet50
#include <gx/reducer/multi_ring.hpp>           // MultiRing
#include <gx/reference/device.hpp>             // the numbers
#include <gx/sim/world/cluster.hpp>            // Cluster
#include <gx/sim/world/device.hpp>             // the time
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/trainer/trainer.hpp>              // Trainer

using namespace gx;

int main() {
    using Headline = Trainer<LeNet, MultiRing<4, fp16>, Warmup<Poly<2>>>;
    const Headline trainer({.batch = 1, .evaluate = false});

    sim::Cluster<reference::Device> cluster(sim::ethernet_10g(4),
                                            {.timed_as = graph<ResNet50>(), .timed_batch = 64});
    const Split images = synthetic({.shape = {1, 28, 28}, .train_count = 8, .test_count = 0});

    const RunRecord run = trainer.train(cluster, images);
    std::printf("%s\n%d GPUs  %.0f images/s  %.1f %% of linear  %zu steps, %.4f dollars\n",
                run.composition.c_str(), run.ranks, run.images_per_second,
                run.scaling_efficiency_pct, run.steps.size(), run.dollars);
}
