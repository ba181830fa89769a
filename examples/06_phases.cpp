// Train on small images with large batches first and on large images later, from files that each
// rank reads its share of, as 8-bit pixels; timed as ResNet-50 at 128 and 224 pixels on four V100.
// Run:     build/dev/examples/06_phases
// Prints:  phase 1: batch 8 a rank, images of 8 x 8
//          phase 2: batch 4 a rank, images of 12 x 12
//          epoch   steps    rate   virtual s   images/s   test %
//              1       8   0.391       2.462        832     72.7
//              2      16   0.266       4.923        832     71.1
//              3      32   0.070      10.266        383     53.1
//              4      48   0.008      15.608        383     75.0

#include <unistd.h>  // getpid

#include <cstdio>      // printf
#include <filesystem>  // a folder for the files
#include <string>      // its name

#include <gx/loader/record_file.hpp>           // RecordFile, write_records
#include <gx/loader/synthetic.hpp>             // synthetic
#include <gx/model/layers.hpp>                 // Network
#include <gx/model/resnet.hpp>                 // ResNet50
#include <gx/reducer/ring.hpp>                 // Ring
#include <gx/reference/device.hpp>             // Device
#include <gx/scheduler/linear_scaling.hpp>     // LinearScaling
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/sim/world/cluster.hpp>            // Cluster
#include <gx/sim/world/device.hpp>             // Device
#include <gx/trainer/trainer.hpp>              // Trainer

/// Its parameters do not depend on the image size: a global pooling stands before the classifier.
struct SmallNet : gx::Network<gx::ImageShape{1, 12, 12}, 4, gx::Conv<8, 3, 1, 1>, gx::BatchNorm,
                              gx::ReLU, gx::GlobalAvgPool, gx::Classifier> {
    static constexpr std::string_view name = "SmallNet";
};

int main() {
    const auto folder =
        std::filesystem::temp_directory_path() / ("gx-06-phases-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    const gx::Split data =
        gx::synthetic({.shape = {1, 12, 12}, .classes = 4, .train_count = 256, .test_count = 128});
    gx::write_records(folder / "train.gxr", data.train);
    gx::write_records(folder / "test.gxr", data.test);

    const gx::RecordFile train(folder / "train.gxr"), test(folder / "test.gxr");
    gx::sim::Cluster<gx::reference::Device> cluster(
        gx::sim::ethernet_10g(4),
        {.timed_phases = {{gx::graph<gx::ResNet50>({.input = {3, 128, 128}}), 64},
                          {gx::graph<gx::ResNet50>({.input = {3, 224, 224}}), 32}},
         .copy_inputs = true});
    using Trainer = gx::Trainer<SmallNet, gx::Ring<gx::fp32>, gx::LinearScaling<gx::Poly<1>>>;
    const Trainer trainer({.epochs = 4,
                           .phases = {{0, 8, 8}, {2, 4, 12}},
                           .pixels = true,
                           .scheduler = {.reference_batch = 32, .next = {.peak_rate = 0.5f}}});
    const gx::RunRecord record = trainer.train(cluster, gx::Sources{train, test});

    for (int number = 1; const gx::PhaseRow& p : record.phases)
        std::printf("phase %d: batch %d a rank, images of %d x %d\n", number++, p.batch_per_rank,
                    p.image_height, p.image_width);
    std::printf("epoch   steps    rate   virtual s   images/s   test %%\n");
    for (const gx::EpochRow& e : record.epochs)
        std::printf("%5d %7d %7.3f %11.3f %10.0f %8.1f\n", e.epoch + 1, int(e.step),
                    record.steps[std::size_t(e.step - 1)].rate, e.seconds, e.images_per_second,
                    e.test_accuracy_pct);
    std::filesystem::remove_all(folder);
}
