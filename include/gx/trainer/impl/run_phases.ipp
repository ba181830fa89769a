// Bodies of run_phases.hpp.
#pragma once

#include <algorithm>  // min
#include <limits>     // largest step

#include <fmt/core.h>  // sentences

#include <gx/core/error.hpp>  // Error
#include <gx/trainer/run_phases.hpp>

namespace gx::detail::trainer {

GX_DECL std::string phase_name(std::span<const Phase> phases, std::size_t index) {
    const Phase& p = phases[index];
    return fmt::format("phase {} (from epoch {}: batch {}, images of {} x {})", index + 1,
                       p.first_epoch, p.batch, p.image_side, p.image_side);
}

GX_DECL void check_phases(Problems& problems, std::span<const Phase> phases, int ranks,
                          std::int64_t images) {
    constexpr int side_most = 1 << 16;
    for (std::size_t i = 0; i < phases.size(); ++i) {
        const Phase& p = phases[i];
        const std::string name = phase_name(phases, i);
        if (i == 0)
            problems.check(p.first_epoch == 0,
                           name + ": the first phase begins at epoch 0: set its first_epoch to 0");
        else
            problems.check(
                phases[i - 1].first_epoch < p.first_epoch,
                fmt::format("{}: the phase before begins at epoch {}, and each begins later than "
                            "the one before: sort the phases by first_epoch",
                            name, phases[i - 1].first_epoch));
        const std::int64_t step = std::int64_t{p.batch} * std::max(1, ranks);
        if (problems.check(p.batch > 0, name + ": a rank needs at least 1 image a step") &&
            images >= ranks)  // else no batch fits: check_run says so
            problems.check(
                step <= std::min(images, std::int64_t{std::numeric_limits<int>::max()}),
                fmt::format("{}: a step of {} ranks has {} images, and the training set {}: lower "
                            "batch to at most {}",
                            name, ranks, step, images, images / std::max(1, ranks)));
        problems.check(p.image_side > 0 && p.image_side <= side_most,
                       fmt::format("{}: image_side is 1 to {} pixels", name, side_most));
    }
}

GX_DECL std::string other_parameters(const Graph& first, const Graph& later) {
    const auto text = [](const Graph& g, const Parameter& p) {
        return fmt::format("{} elements with images of {} x {}", p.count, g.input.height,
                           g.input.width);
    };
    for (std::size_t i = 0; i < std::min(first.parameters.size(), later.parameters.size()); ++i) {
        const Parameter &a = first.parameters[i], &b = later.parameters[i];
        if (a.name == b.name && a.shape == b.shape) continue;
        return fmt::format(
            "'{}' of {} has {} and {} in phase 1, so its weights can't be carried over: end the "
            "convolutions in a global pooling, as ResNet does, or train with one image size",
            b.name.view(), later.name.view(), text(later, b), text(first, a));
    }
    if (first.parameters.size() == later.parameters.size()) return "";
    return fmt::format("{} has {} parameters with images of {} x {} and {} in phase 1",
                       later.name.view(), later.parameters.size(), later.input.height,
                       later.input.width, first.parameters.size());
}

GX_DECL Timetable timetable_of(std::span<const RunPhase> phases, int ranks, std::int64_t images) {
    std::vector<Timetable::Entry> entries;
    for (const RunPhase& p : phases)
        entries.push_back({p.first_epoch, std::int64_t{p.batch} * ranks});
    return {images, std::move(entries)};
}

GX_DECL std::vector<PhaseRow> rows_of(std::span<const RunPhase> phases,
                                      const Timetable& timetable) {
    std::vector<PhaseRow> rows;
    for (const RunPhase& p : phases)
        rows.push_back({.first_epoch = p.first_epoch,
                        .batch_per_rank = p.batch,
                        .image_height = p.graph.input.height,
                        .image_width = p.graph.input.width,
                        .steps_per_epoch = timetable.steps_per_epoch(int(rows.size()))});
    return rows;
}

GX_DECL std::string note_of(const PhaseRow& row, int number) {
    return fmt::format(
        "Phase {}, from epoch {}: batch {} a rank, images of {} x {}, {} steps an epoch.", number,
        row.first_epoch, row.batch_per_rank, row.image_height, row.image_width,
        row.steps_per_epoch);
}

GX_DECL void throw_other_layout(int rank, int phase, const std::string& device) {
    throw Error(fmt::format(
        "rank {}, phase {}: {} lays the parameters out otherwise for this image size and batch, so "
        "optimizer state and gradients in flight can't be carried over. Resume from the checkpoint "
        "of the epoch before, which has none of its layout.",
        rank, phase + 1, device));
}
GX_DECL void throw_other_images(int rank, int phase, ImageShape expected, ImageShape found,
                                const std::string& loader) {
    throw Error(fmt::format(
        "rank {}, phase {}: {} hands out images of {} x {} x {}, and the phase has {} x {} x {}. "
        "Resize to LoaderOptions::image_side in the loader.",
        rank, phase + 1, loader, found.channels, found.height, found.width, expected.channels,
        expected.height, expected.width));
}

}  // namespace gx::detail::trainer
