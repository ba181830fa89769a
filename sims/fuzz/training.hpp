// train_on: trains with a reducer on a logged cluster; one translation unit for a kind of Trainer.
#pragma once

#include <algorithm>   // max
#include <filesystem>  // checkpoints
#include <limits>      // no end
#include <string>      // composition

#include <fuzz/any_reducer.hpp>   // ReducerKind
#include <fuzz/world.hpp>         // LoggedCluster
#include <gx/loader/dataset.hpp>  // Dataset, Split
#include <gx/trainer/record.hpp>  // RunRecord

namespace gx::sim::fuzz {

/// Errors: of train(): LostRank, Error; Stuck and Race of the cluster.
[[nodiscard]] RunRecord train_replicas(const ReducerKind& kind, LoggedCluster& world,
                                       const Scenario& s, const std::filesystem::path& output);
/// The same with the scenario's phases.
[[nodiscard]] RunRecord train_in_phases(const ReducerKind& kind, LoggedCluster& world,
                                        const Scenario& s, const std::filesystem::path& output);
/// A reducer that owns the update: the run goes on from checkpoints, or stops at a lost rank.
[[nodiscard]] RunRecord train_owned(const ReducerKind& kind, LoggedCluster& world,
                                    const Scenario& s, const std::filesystem::path& output);

/// Images that hold their numbers, so many pixels that the network has a parameter an element.
[[nodiscard]] inline Split numbers(const Scenario& s) {
    constexpr int classes = 64;
    const int pixels = std::max(2, static_cast<int>((s.elements + classes - 1) / classes) - 1);
    const auto of = [&](std::int64_t count) {
        Dataset d{.name = "numbers", .shape = {1, 1, pixels}, .classes = classes};
        d.pixels.resize(static_cast<std::size_t>(count * pixels));
        d.labels.resize(static_cast<std::size_t>(count));
        d.mean = {0.0f};
        d.deviation = {1.0f / 255};
        for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
            d.pixels[i * static_cast<std::size_t>(pixels)] = static_cast<std::uint8_t>(i % 256);
            d.pixels[i * static_cast<std::size_t>(pixels) + 1] = static_cast<std::uint8_t>(i / 256);
        }
        return d;
    };
    return {of(s.samples), of(s.cluster.ranks())};
}

/// The options that all kinds of Trainer share.
template <class Trains>
[[nodiscard]] typename Trains::Options options_of_run(const Scenario& s,
                                                      const std::filesystem::path& output) {
    typename Trains::Options o;
    o.batch = s.batch;
    o.epochs = s.epochs;
    o.seed = s.seed;
    o.scheduler.peak_rate = 1;
    o.output = output;
    o.checkpoints.every_steps = s.every_steps;
    o.evaluate = s.evaluate;
    o.most_skips = std::numeric_limits<int>::max();
    return o;
}

}  // namespace gx::sim::fuzz
