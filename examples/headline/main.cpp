// The headline program: a trainer composed as a type, run on four simulated machines of eight V100.
// Run:  build/release/gx_headline

#include <cstdio>  // printf

#include <gx/model/resnet.hpp>        // ResNet50
#include <gx/loader/synthetic.hpp>    // images without files
#include <gx/onednn/device.hpp>       // the numbers
#include <gx/reducer/multi_ring.hpp>  // MultiRing
#include <gx/sim/cluster.hpp>         // Cluster
#include <gx/sim/device.hpp>          // the time
#include <gx/sim/machines.hpp>        // p3_16xlarge
#include <gx/trainer/trainer.hpp>     // Trainer

using namespace gx;

int main() {
    Trainer<ResNet50, MultiRing<4, fp16>, Warmup<Poly<2>>> trainer({.batch = 1, .evaluate = false});
    sim::Cluster<onednn::Device> cluster(sim::p3_16xlarge(2), {.timed_batch = 64});
    const RunRecord run = trainer.train(
        cluster, synthetic({.shape = {3, 64, 64}, .classes = 1000, .train_count = 32, .test_count = 0}));
    std::printf("%d GPUs  %.0f images/s  %.1f %% of linear  %.6f dollars\n", run.ranks,
                run.images_per_second, run.scaling_efficiency_pct, run.dollars);
}
