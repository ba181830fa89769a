// TrainSpeed: images a second of a Trainer, in the second half of a run on synthetic images.
#pragma once

#include <algorithm>  // min
#include <cstddef>    // size_t
#include <cstdint>    // int64_t
#include <string>     // names

#include <gx/loader/synthetic.hpp>  // synthetic
#include <gx/trainer/trainer.hpp>   // Trainer

namespace gx {

struct TrainSpeedOptions {
    int batch = 256;  ///< a GPU
    ImageShape shape{3, 224, 224};
    int classes = 1000;
    int steps = 30;  ///< that are timed, behind as many that are not; a multiple of 4 is taken
};

struct TrainSpeed {
    std::string composition{}, device{};
    int ranks = 0, batch = 0;
    double images_per_second = 0;  ///< of all ranks
};

/// Trains T in `world`, from 8-bit images in the host's memory, without an evaluation.
/// Errors: as Trainer::train's; gx::Error where the batch does not fit.
template <class T, class World>
TrainSpeed train_speed(World& world, const TrainSpeedOptions& o) {
    Split images = synthetic({.shape = o.shape,
                              .classes = std::min(o.classes, 256),
                              .train_count = std::int64_t{4} * o.batch * world.ranks(),
                              .test_count = 0});
    images.train.classes = images.test.classes = o.classes;  // labels are bytes, and name 256
    // Epochs have four batches of each rank.
    const int epochs = 2 * ((o.steps + 3) / 4);
    const RunRecord run = T({.batch = o.batch, .epochs = epochs, .pixels = true, .evaluate = false})
                              .train(world, images);
    const auto half = static_cast<std::size_t>(epochs / 2);
    const double seconds = run.epochs.back().seconds - run.epochs[half - 1].seconds;
    const double trained = 4.0 * o.batch * run.ranks * double(run.epochs.size() - half);
    return {.composition = run.composition,
            .device = run.device,
            .ranks = run.ranks,
            .batch = o.batch,
            .images_per_second = trained / seconds};
}

}  // namespace gx
