// Compose a trainer as a type and run it on four simulated machines: real gradients of a real
// ResNet-50 (small images, one a GPU), timed as 64 images of 224x224 a GPU.
// Run:     build/dev/examples/01_headline
// Prints:  Trainer<ResNet50, MultiRing<4, fp16>, Warmup<Poly<2>>>
//          4 GPUs  1119 images/s  71.4 % of linear  2 steps, 0.0016 dollars

#include <gx/loader/synthetic.hpp>             // images without files
#include <gx/model/resnet.hpp>                 // ResNet50
#include <gx/onednn/device.hpp>                // the numbers
#include <gx/reducer/multi_ring.hpp>           // MultiRing
#include <gx/sim/world/cluster.hpp>            // Cluster
#include <gx/sim/world/device.hpp>             // the time
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/trainer/trainer.hpp>              // Trainer

#include <cstdio>  // printf

using namespace gx;

int main() {
    const Trainer<ResNet50, MultiRing<4, fp16>, Warmup<Poly<2>>> trainer(
        {.batch = 1, .evaluate = false});
    sim::Cluster<onednn::Device> cluster(sim::ethernet_10g(4),
                                         {.timed_as = graph<ResNet50>(), .timed_batch = 64});
    const Split images =
        synthetic({.shape = {3, 64, 64}, .classes = 100, .train_count = 8, .test_count = 0});

    const RunRecord run = trainer.train(cluster, images);
    std::printf("%s\n%d GPUs  %.0f images/s  %.1f %% of linear  %zu steps, %.4f dollars\n",
                run.composition.c_str(), run.ranks, run.images_per_second,
                run.scaling_efficiency_pct, run.steps.size(), run.dollars);
}
