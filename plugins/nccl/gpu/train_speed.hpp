// TrainSpeed: images a second of a Trainer, in the later steps of a run on synthetic images.
#pragma once

#include <algorithm>  // copy_n, min
#include <cstddef>    // ptrdiff_t, size_t
#include <cstdint>    // int64_t
#include <string>     // names

#include <gx/loader/synthetic.hpp>  // synthetic
#include <gx/trainer/trainer.hpp>   // Trainer

namespace gx {

struct TrainSpeedOptions {
    int batch = 256;  ///< a GPU
    ImageShape shape{3, 224, 224};
    int classes = 1000;
    int steps = 30;   ///< that are timed
    int before = 10;  ///< that are not: the first ones load kernels and capture graphs
};

struct TrainSpeed {
    std::string composition{}, device{};
    int ranks = 0, batch = 0;
    double images_per_second = 0;  ///< of all ranks
};

inline constexpr int distinct_batches = 4;

/// Images over and over, up to so many.
inline void repeat(Dataset& images, std::int64_t count) {
    const auto of = [&](auto& all, std::int64_t each) {
        const auto from = all.size(), to = static_cast<std::size_t>(count * each);
        all.resize(to);
        for (std::size_t i = from; i < to; i += from)
            std::copy_n(all.begin(), std::min(from, to - i), all.begin() + std::ptrdiff_t(i));
    };
    of(images.pixels, images.shape.elements());
    of(images.labels, 1);
}

/// Trains T in `world`, from 8-bit images in the host's memory, without an evaluation.
/// Errors: as Trainer::train's; gx::Error where the batch does not fit.
template <class T, class World>
TrainSpeed train_speed(World& world, const TrainSpeedOptions& o) {
    Split images = synthetic({.shape = o.shape,
                              .classes = std::min(o.classes, 256),
                              .train_count = std::int64_t{distinct_batches} * o.batch,
                              .test_count = 0});
    images.train.classes = images.test.classes = o.classes;  // labels are bytes, and name 256
    // One epoch: at the end of each, a run waits for its devices.
    const int steps = o.before + o.steps;
    repeat(images.train, std::int64_t{steps} * o.batch * world.ranks());
    const RunRecord run =
        T({.batch = o.batch, .epochs = 1, .pixels = true, .evaluate = false}).train(world, images);
    const double seconds =
        run.steps.back().seconds - run.steps[static_cast<std::size_t>(o.before) - 1].seconds;
    const double trained = double(o.steps) * o.batch * run.ranks;
    return {.composition = run.composition,
            .device = run.device,
            .ranks = run.ranks,
            .batch = o.batch,
            .images_per_second = trained / seconds};
}

}  // namespace gx
