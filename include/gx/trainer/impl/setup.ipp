// Bodies of setup.hpp.
#pragma once

#include <fcntl.h>   // open
#include <unistd.h>  // getpid, close

#include <algorithm>     // adjacent_find, find_if, max, min, sort
#include <cmath>         // isnan, sqrt
#include <exception>     // exception
#include <functional>    // less
#include <limits>        // largest batch
#include <new>           // bad_alloc
#include <random>        // names of files
#include <stdexcept>     // length_error
#include <system_error>  // error_code
#include <vector>        // counts

#include <fmt/core.h>  // sentences

#include <gx/core/cold.hpp>                  // GX_COLD
#include <gx/core/detail/rethrow_named.hpp>  // is_of_memory, rethrow_named
#include <gx/io/atomic_file.hpp>             // write_file
#include <gx/core/error.hpp>                 // Error
#include <gx/core/hash.hpp>                  // mix64, hash_name
#include <gx/core/hash_bits.hpp>             // hash_bits
#include <gx/model/graph.hpp>                // Graph
#include <gx/model/memory_plan.hpp>          // MemoryPlan
#include <gx/trainer/rows.hpp>               // read_rows
#include <gx/trainer/run_phases.hpp>         // phase_name
#include <gx/trainer/setup.hpp>

namespace gx::detail::trainer {

GX_DECL Plan plan_of(std::int64_t images, int ranks, int batch, int epochs) {
    Plan plan{.ranks = ranks, .global_batch = batch * ranks};
    plan.steps_per_epoch = (images + plan.global_batch - 1) / plan.global_batch;
    plan.total_steps = plan.steps_per_epoch * std::max(1, epochs);
    return plan;
}

GX_COLD GX_DECL void check_folder(Problems& problems, const std::filesystem::path& folder) {
    if (folder.empty()) return;
    problems.collect([&] {
        std::error_code error;
        std::filesystem::create_directories(folder, error);
        // Without a name, where the file system can: what is killed leaves nothing.
        const int unnamed = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
        if (unnamed >= 0) {
            ::close(unnamed);
            return;
        }
        // other hosts may share the folder, and have a process of this number
        const auto probe =
            folder / fmt::format(".gx-probe-{}-{:08x}", ::getpid(), std::random_device()());
        try {
            std::error_code none;
            if (const auto target = std::filesystem::read_symlink(folder, none);
                !none && !std::filesystem::exists(folder, none))
                throw Error("it is a link to '" + target.string() + "', which is not there.");
            if (error) throw Error(error.message() + ".");
            write_file(probe, "");
        } catch (const Error& e) {
            throw Error("output folder '" + folder.string() + "' can't be written: " + e.what() +
                        " Choose another folder with 'output'.");
        }
        std::filesystem::remove(probe, error);
    });
}

GX_DECL Plan check_run(Problems& problems, const RunOptions& o, const Sources& data, int ranks,
                       const std::string& misfit) {
    const SourceInfo train = data.train.info(), test = data.test.info();
    const std::int64_t images = train.count;
    problems.check(o.epochs > 0, fmt::format("epochs is {}: train for at least 1", o.epochs));
    problems.check(
        o.label_smoothing >= 0 && o.label_smoothing < 1,
        fmt::format("label_smoothing is {}: it is at least 0 and below 1", o.label_smoothing));
    problems.check(o.most_skips > 0,
                   fmt::format("most_skips is {}: allow at least 1 skipped step", o.most_skips));
    problems.check(o.trace_steps >= 0,
                   fmt::format("trace_steps is {}: keep 0 steps or more", o.trace_steps));
    problems.check(std::ranges::find(o.observers, nullptr) == o.observers.end(),
                   "observers holds a null pointer: give the addresses of observers");
    auto observers = o.observers;
    std::ranges::sort(observers, std::less<>());
    problems.check(std::ranges::adjacent_find(observers) == observers.end(),
                   "observers holds one observer twice, which would be told of each event twice: "
                   "leave it out once");
    problems.check(images >= ranks,
                   fmt::format("there are {} ranks and {} training images: use at most as many "
                               "ranks as images",
                               ranks, images));
    problems.check(!o.evaluate || test.count >= ranks,
                   fmt::format("there are {} ranks and {} test images: give at least one test "
                               "image for each rank, use fewer ranks, or set evaluate to false",
                               ranks, test.count));
    const bool alike = o.phases.empty() ? test.shape == train.shape  // or resized by phase
                                        : test.shape.channels == train.shape.channels;
    problems.check(
        !o.evaluate || test.count == 0 || (alike && test.classes == train.classes),
        fmt::format("the test set, {}, has other images or classes than the training set, {}: take "
                    "both from one data set",
                    describe(test), describe(train)));
    const auto names = std::ranges::mismatch(train.class_names, test.class_names);
    if (o.evaluate && test.count > 0 && test.classes == train.classes &&
        names.in1 != train.class_names.end() && names.in2 != test.class_names.end())
        problems.add(fmt::format(
            "class {} is '{}' in the training set and '{}' in the test set: give both the same "
            "classes, in one order, or leave out the names of one where they mean the same",
            names.in1 - train.class_names.begin(), *names.in1, *names.in2));
    const auto check_whole = [&](const char* role, const SourceRef& set, const std::string& name) {
        const std::string sentence = set.flaw();
        problems.check(sentence.empty(), fmt::format("{} set '{}': {}", role, name, sentence));
    };
    check_whole("training", data.train, train.name);
    if (o.evaluate && test.count > 0) check_whole("test", data.test, test.name);
    problems.check(train.classes >= 2,
                   fmt::format("the training set has {} classes: a classifier needs at least 2",
                               train.classes));
    problems.check(misfit.empty(), misfit);
    problems.check(ranks > 0, fmt::format("the world has {} ranks: give it at least 1", ranks));
    ranks = std::max(1, ranks);
    const bool batches =
        problems.check(o.batch > 0 && o.batch <= std::numeric_limits<int>::max() / ranks,
                       fmt::format("batch is {}: a rank needs at least 1 image a step, and a "
                                   "step of all ranks at most {}",
                                   o.batch, std::numeric_limits<int>::max()));
    if (problems.check(o.micro_batches > 0,
                       fmt::format("micro_batches is {}: a batch is computed in at least 1 part",
                                   o.micro_batches))) {
        const auto check_parts = [&](int batch, const std::string& of) {
            problems.check(batch % o.micro_batches == 0,
                           fmt::format("{}batch {} has no {} parts of one size: let micro_batches "
                                       "divide it",
                                       of, batch, o.micro_batches));
        };
        if (o.phases.empty()) check_parts(o.batch, "");
        for (std::size_t i = 0; i < o.phases.size(); ++i)
            check_parts(o.phases[i].batch, phase_name(o.phases, i) + ": ");
    }
    const CheckpointOptions& c = o.checkpoints;
    problems.check(c.every_steps >= 0 && c.every_minutes >= 0 && c.keep >= 0,
                   fmt::format("checkpoints are every {} steps and every {} minutes, and {} are "
                               "kept: give 0 or more",
                               c.every_steps, c.every_minutes, c.keep));
    problems.check(o.resume != "latest" || !o.output.empty(),
                   "resume is 'latest', and there is no folder to look in: name one with 'output'");
    problems.check(!o.output.empty() || c == CheckpointOptions{},
                   "checkpoints are asked for, and there is no folder for them: name one with "
                   "'output'");
    if (o.writes) check_folder(problems, o.output);
    return plan_of(images, ranks, batches ? o.batch : 1, o.epochs);
}

GX_DECL void check_pixels(bool wanted, bool takes, const std::string& device) {
    if (!wanted || takes) return;
    throw Error(
        fmt::format("gx: this run can't start: pixels is true, and {} takes normalised "
                    "floats only. Set pixels to false, or let the device normalise "
                    "Batch::pixels and declare 'static constexpr bool takes_pixels = true'.",
                    device));
}

GX_DECL void check_mixed(const Sources& data, bool evaluate, bool takes,
                         const std::string& device) {
    if (evaluate && data.test.mixes())
        throw Error(
            fmt::format("gx: this run can't start: test set '{}' mixes its images, so that an "
                        "accuracy has no meaning. Give the source that it mixes.",
                        data.test.info().name));
    if (takes || !data.train.mixes()) return;
    throw Error(fmt::format(
        "gx: this run can't start: training set '{}' mixes its images, and the loss of {} takes "
        "one label an image. Give the source that it mixes, or let the device take "
        "Batch::second_labels and declare 'static constexpr bool takes_second_labels = true'.",
        data.train.info().name, device));
}

GX_DECL std::string misfit(std::string_view model, GraphTrouble (*trouble)(const GraphOptions&),
                           ImageShape input) {
    const GraphTrouble found = trouble({.input = input});
    if (found.fault == GraphFault::none) return "";
    const bool too_small = found.fault == GraphFault::image_too_small;
    constexpr int most = 1024;
    int side = too_small ? 1 : std::max(input.height, input.width);  // of an image that fits
    const auto fits_not_yet = [&] {
        const GraphFault fault = trouble({.input = {input.channels, side, side}}).fault;
        return fault == GraphFault::image_too_small || fault == GraphFault::uneven_pool;
    };
    while (side < most && fits_not_yet()) ++side;
    std::string text = fmt::format("images of {} x {} x {} do not fit {}: ", input.channels,
                                   input.height, input.width, model);
    if (too_small && side < most) {
        text.append(found.where().view());
        return text + fmt::format(
                          ". Use images of at least {} x {}, or a network with fewer "
                          "stages",
                          side, side);
    }
    text.append(found.text().view());
    if (found.fault == GraphFault::uneven_pool && side < most)
        text += fmt::format("; images of {} x {} do", side, side);
    return text;
}

GX_DECL Checkpoint resumable(const RunOptions& o, const Graph& graph, const Names& names,
                             const Sources& data, std::uint64_t data_hash, int ranks) {
    Checkpoint c = read_checkpoint(o.resume, graph);
    Problems problems;
    problems.check(c.composition == names.composition,
                   fmt::format("it was written by {}, and this run is {}: resume with the "
                               "composition that wrote it",
                               c.composition, names.composition));
    problems.check(c.images == data.train.count(),
                   fmt::format("it was trained on {} images, and this run has {}: give the same "
                               "training set",
                               c.images, data.train.count()));
    problems.check(
        c.images != data.train.count() || c.data_hash == 0 || data_hash == 0 ||
            c.data_hash == data_hash,
        fmt::format("it was trained on other images than those of '{}', or on images "
                    "cropped, augmented, mixed, normalised or made into features otherwise "
                    "({:016x} and {:016x}): give the same training set, its decoder and their "
                    "options",
                    data.train.info().name, c.data_hash, data_hash));
    for (const Checkpoint::ReducerVector& v : c.reducer)
        problems.check(v.replicated || c.ranks == ranks,
                       fmt::format("reducer {} keeps '{}' for each rank, the checkpoint holds that "
                                   "of {} ranks, and this run has {}: resume on {} ranks",
                                   names.reducer, v.name, c.ranks, ranks, c.ranks));
    problems.check(c.seed == o.seed,
                   fmt::format("it was written with seed {}, and this run has seed {}: set seed "
                               "to {}",
                               c.seed, o.seed, c.seed));
    const std::string smoothing = fmt::format("{}", o.label_smoothing);
    if (const auto kept =
            std::ranges::find(c.options, "label_smoothing", &Checkpoint::Option::name);
        kept != c.options.end())
        problems.check(kept->value == smoothing,
                       fmt::format("it was written with label_smoothing {}, and this run has {}, "
                                   "so that losses of both parts can't be compared: set "
                                   "label_smoothing to {}",
                                   kept->value, smoothing, kept->value));
    problems.check(c.epoch < o.epochs || (c.epoch == o.epochs && names.latest && !c.is_within()),
                   fmt::format("it has done {} epochs{}, and this run ends after {}: ask for more "
                               "epochs in all",
                               c.epoch, c.is_within() ? " and a part of the next" : "", o.epochs));
    problems.check(!c.is_within() || !names.survives,
                   "it lies within an epoch, and a run that continues on survivors resumes from "
                   "checkpoints between epochs: name such a one, or leave out "
                   "ContinueOnSurvivors");
    problems.throw_if_any("gx: this run can't go on from '" + o.resume.string() + "'");
    return c;
}

GX_DECL std::string rescaled(const Checkpoint& c, const Plan& plan, int batch,
                             std::int64_t steps_per_epoch) {
    if (c.ranks == plan.ranks && c.batch == batch) return "";
    const std::int64_t before = plan_of(c.images, c.ranks, c.batch, 1).steps_per_epoch;
    const std::string steps =
        steps_per_epoch == before
            ? fmt::format("{} steps an epoch as before", before)
            : fmt::format("{} steps an epoch instead of {}", steps_per_epoch, before);
    return fmt::format(
        "resumed {} with {} ranks x batch {} instead of {} x {}: {}; the schedule goes on at step "
        "{} of {}{}, and options given in steps count these steps",
        c.place(), plan.ranks, batch, c.ranks, c.batch, steps,
        c.epoch * plan.steps_per_epoch + c.within.images / plan.global_batch, plan.total_steps,
        steps_per_epoch == plan.steps_per_epoch ? "" : " of the first phase's batch");
}

GX_DECL std::vector<std::string> changes(const Checkpoint& c,
                                         const std::vector<Checkpoint::Option>& options,
                                         const WorldInfo& world) {
    std::vector<std::string> out;
    std::string changed;
    for (const Checkpoint::Option& o : options) {
        const auto kept = std::ranges::find(c.options, o.name, &Checkpoint::Option::name);
        const std::string before = kept == c.options.end() ? "one not kept" : kept->value;
        if (before == o.value) continue;
        changed += fmt::format("{}{} is {} instead of {}", changed.empty() ? "" : ", ", o.name,
                               o.value, before);
    }
    for (const Checkpoint::Option& kept : c.options)
        if (std::ranges::find(options, kept.name, &Checkpoint::Option::name) == options.end())
            changed += fmt::format("{}{} is not set instead of {}", changed.empty() ? "" : ", ",
                                   kept.name, kept.value);
    if (!changed.empty())
        out.push_back(fmt::format("resumed {} with other options: {}", c.place(), changed));
    if (c.clock != world.clock && c.clock != mixed_clocks)
        out.push_back(fmt::format(
            "resumed {} by a {} clock, and earlier epochs were timed by a {} clock: "
            "time, images per second, dollars, breakdown and efficiency of the whole run are NaN, "
            "and images per second of an epoch are by its own clock",
            c.place(), world.clock, c.clock));
    if (c.timed_as != world.timed_as && c.clock == world.clock) {
        const auto named = [](const std::string& what) {
            return what.empty() ? std::string("what is trained") : what;
        };
        out.push_back(
            fmt::format("resumed {} timed as {} instead of {}: time, images and dollars of the "
                        "whole run are the sums of both",
                        c.place(), named(world.timed_as), named(c.timed_as)));
    }
    return out;
}

GX_DECL void expect_checkpoints(Recovery recovery) {
    if (recovery == Recovery::checkpoint) return;
    throw Error(
        "gx: this run can't start: on this World work behind a lost rank's messages runs on, and "
        "other ranks may receive sums that were never whole, so that survivors can't go on from "
        "what they hold. Set survival.recovery to gx::Recovery::checkpoint, and an output folder.");
}

GX_DECL void check_owner_recovers(Problems& problems, Recovery recovery,
                                  const std::string& reducer) {
    problems.check(recovery == Recovery::checkpoint,
                   "survival.recovery is Recovery::survivors: with " + reducer +
                       ", which owns the update, survivors lack what a lost rank alone held, or "
                       "hold replicas that an exchange has left unequal; set it to "
                       "gx::Recovery::checkpoint, and output to a folder");
}

GX_DECL DataText text_of(const SourceRef& source) {
    const SourceInfo info = source.info();
    const std::uint64_t content = source.content();
    std::uint64_t known = hash_name(info.name) ^ hash_bits(info.mean);
    known = mix64(known ^ content) ^ hash_bits(info.deviation);
    std::string text = describe(info);
    if (content != 0) text += fmt::format(", content {:016x}", content);
    DataText out{};
    text.resize(std::min(text.size(), out.size() - 24));
    text += fmt::format(" ({:016x})", known);
    std::ranges::copy(text, out.begin());
    return out;
}

GX_DECL std::uint64_t data_hash(const SourceRef& source) {
    const std::uint64_t content = source.content();
    if (content == 0) return 0;
    const SourceInfo info = source.info();
    return mix64(mix64(content ^ hash_bits(info.mean)) ^ hash_bits(info.deviation));
}

GX_DECL std::string other_data(const char* role, std::span<const DataText> of_ranks) {
    const auto differs =
        std::ranges::find_if(of_ranks, [&](const DataText& t) { return t != of_ranks[0]; });
    if (differs == of_ranks.end()) return "";
    return fmt::format(
        "the {} set of rank {} is not that of rank 0: it is {}, and that of rank 0 is {}. Name the "
        "same data in every process.",
        role, differs - of_ranks.begin(), differs->data(), of_ranks[0].data());
}

GX_DECL void throw_too_few(const LossRow& loss, int fewest, const std::string& error) {
    throw Error(fmt::format(
        "{}{}{} left, and fewest_ranks is {}. Go on from the last checkpoint.", error,
        error.empty() ? "" : ". ",
        loss.ranks == 1 ? std::string("1 rank is") : fmt::format("{} ranks are", loss.ranks),
        fewest));
}

GX_DECL void expect_whole(const RunRecord& r, int epochs) {
    // A run that was over has all rows from the start, and this hash when its last test is made.
    if (std::ssize(r.epochs) == epochs && r.weights_hash != 0) return;
    throw Error(fmt::format(
        "rank 0 was lost in epoch {} of {}, and no rank was left to report it: the others had "
        "finished or were lost too. Go on from the last checkpoint.",
        std::min(std::ssize(r.epochs) + 1, std::ptrdiff_t{epochs}), epochs));
}

GX_DECL void restore_rows(RunRecord& r, const Checkpoint& c, const std::filesystem::path& path) {
    read_rows(c.record, r);
    std::vector<StepRow> steps = earlier_steps(path, c);
    const std::int64_t before = c.step - (c.is_within() ? std::ssize(r.steps) : 0);
    if (!c.is_within()) steps.insert(steps.end(), r.steps.begin(), r.steps.end());
    r.steps = std::move(steps);
    if (const std::int64_t gone = before - std::ssize(r.steps); gone > 0)
        r.notes.push_back(fmt::format(
            "step rows of {} of the {} steps before epoch {} are missing: their checkpoints do "
            "not lie beside the one that the run was resumed from.",
            gone, before, c.epoch + 1));
}

GX_DECL void throw_not_within(const std::string& loader, std::int64_t done,
                              std::int64_t global_batch) {
    throw Error(fmt::format(
        "the checkpoint lies behind {} images of an epoch, which is no multiple of {}, the images "
        "of a step, and {} begins at an epoch's first image alone. Resume with the ranks and the "
        "batch that wrote it, or from a checkpoint between two epochs.",
        done, global_batch, loader));
}

GX_DECL std::string rows_to_keep(const RunRecord& r, const std::vector<StepRow>& steps) {
    RunRecord rows;
    rows.breakdown = r.breakdown;
    rows.skipped_steps = r.skipped_steps;
    rows.epochs = r.epochs;
    rows.steps = steps;
    return rows_text(rows);
}

GX_DECL std::string note_of(const LossRow& row) {
    const auto listed = [](const auto& all, auto text) {
        std::string out;
        for (std::size_t i = 0; i < all.size(); ++i)
            out += (i == 0 ? "" : i + 1 < all.size() ? ", " : " and ") + text(all[i]);
        return out;
    };
    const std::string ranks = listed(row.lost, [](int r) { return std::to_string(r); });
    std::string note = fmt::format(
        "lost rank{} {}{}, and went on from step {} with {}", row.lost.size() == 1 ? "" : "s",
        ranks, row.error.empty() ? "" : " (" + row.error + ")", row.step,
        row.ranks == 1 ? std::string("1 rank") : fmt::format("{} ranks", row.ranks));
    if (!row.state.empty())
        note += ". Reducer state of the lost ranks is gone: " +
                listed(row.state, [](const std::string& name) { return "'" + name + "'"; });
    return note + ".";
}

GX_DECL std::string description(const Sources& data, bool evaluate) {
    std::string text = std::string("training on ") + text_of(data.train).data();
    if (evaluate) text += std::string(", testing on ") + text_of(data.test).data();
    return text;
}

GX_DECL std::string progress_words(int epoch, int epochs, double loss) {
    return fmt::format("epoch {}/{}  loss {:.4g}", epoch + 1, epochs, loss);
}

GX_DECL void throw_bad_loss(int rank, std::int64_t step, const std::string& layer, float rate) {
    throw Error(
        fmt::format("rank {}, step {}: the loss is not finite; the first such values are "
                    "outputs of {}. Lower the learning rate ({} at this step), lengthen the "
                    "warmup, or look at this step's images.",
                    rank, step, layer, rate));
}
GX_DECL void throw_bad_test(int rank, int epoch, const std::string& layer,
                            const std::string& saved) {
    const std::string advice =
        !layer.starts_with("input ")
            ? "Its weights may have diverged: lower the learning rate, or lengthen the warmup"
        : saved.empty() ? "Look at the test images"
                        : fmt::format(
                              "Look at the test images, or go on from {} with "
                              "'evaluate = false'",
                              saved);
    throw Error(
        fmt::format("rank {}, the test behind epoch {}: the loss is not finite; the first such "
                    "values are outputs of {}. {}.",
                    rank, epoch + 1, layer, advice));
}
GX_DECL void throw_not_repeated(int rank, std::int64_t step, const std::string& reducer,
                                const char* difference) {
    throw Error(
        fmt::format("rank {}, step {}: its work was to be that of a captured step, and is not: {}. "
                    "Reducer {}, or the device, promises this, and does not keep it: leave out its "
                    "'repeats_work', or set 'graphs = false' in the World's options.",
                    rank, step, difference, reducer));
}
GX_DECL void throw_skips(int rank, std::int64_t step, std::int64_t in_a_row, float loss_scale,
                         std::string_view wire, ElementType compute, const std::string& reducer,
                         bool apart) {
    const std::string wire_advice =
        apart || wire == "fp32" ? "" : fmt::format(", send fp32 in place of {}", wire);
    const std::string device_advice =
        compute == ElementType::fp16 ? ", compute in bf16 or fp32 in place of fp16" : "";
    const std::string reducer_advice =
        apart ? ""
              : fmt::format(", or test reducer {} with the conformance kit of gx/testing", reducer);
    throw Error(fmt::format(
        "rank {}, step {}: {} skipped, because {} gradients had infinities or "
        "NaN, and the loss scale is {}. The network does not learn. Lower the learning "
        "rate or the loss scale{}{}{}.",
        rank, step,
        in_a_row > 0 ? fmt::format("the last {} steps in a row were", in_a_row)
                     : fmt::format("all {} steps were", step),
        apart ? "its own" : "averaged", loss_scale, wire_advice, device_advice, reducer_advice));
}
GX_DECL void throw_no_memory(int rank, int batch, int micro_batch, const Graph& graph) {
    constexpr double gigabyte = 1e9, element = sizeof(float);
    const double images = 2 * element * double(batch) * double(graph.input.elements());
    const int planned = std::min(micro_batch, 1024);  // the plan counts in 64 bits
    const double activations =
        double(MemoryPlan(graph, planned, Mode::train).lower_bound_bytes) / planned * micro_batch;
    const double parameters =
        (micro_batch < batch ? 3 : 2) * element * double(graph.parameter_elements());
    throw Error(fmt::format(
        "rank {}: there is not enough memory for batch {} of images of {} x {} x {} on {}: a rank "
        "needs about {:.3f} GB, {:.3f} of them for 2 batches of images, {:.3f} for activations "
        "and {:.3f} for parameters and gradients. Lower batch, raise micro_batches, or use smaller "
        "images or a smaller network.",
        rank, batch, graph.input.channels, graph.input.height, graph.input.width, graph.name.view(),
        (images + activations + parameters) / gigabyte, images / gigabyte, activations / gigabyte,
        parameters / gigabyte));
}
GX_DECL void with_memory(int rank, FunctionRef<const RunPhase&()> phase, FunctionRef<void()> f) {
    const auto stop = [&] {
        throw_no_memory(rank, phase().batch, phase().micro_batch, phase().graph);
    };
    try {
        f();
    } catch (const std::bad_alloc&) {
        stop();
    } catch (const std::length_error& e) {
        if (detail::is_of_container(e)) stop();
        throw;
    } catch (const Error& e) {
        if (detail::is_of_memory(e)) stop();
        throw;
    } catch (...) {  // of a policy or a source that is made; steps name theirs
        detail::rethrow_named("rank " + std::to_string(rank) + ", at its start");
    }
}
GX_DECL void throw_replicas_differ(std::int64_t step, int rank) {
    throw Error(fmt::format(
        "step {}: the weights of rank {} differ from those of rank 0. The reducer gave "
        "ranks different averages, or their libraries or CPUs compute differently; test "
        "the reducer with the conformance kit of gx/testing.",
        step, rank));
}
GX_DECL void throw_survivors_differ(std::int64_t step, int rank, int other) {
    throw Error(
        fmt::format("step {}: of the ranks that are left, {} and {} have made as many updates and "
                    "differ in their state. The reducer gave ranks different averages; test it "
                    "with the conformance kit of gx/testing, or go on from a checkpoint.",
                    step, std::min(rank, other), std::max(rank, other)));
}
GX_DECL void throw_states_differ(std::int64_t step, int rank, const std::string& reducer,
                                 std::string_view name) {
    throw Error(
        fmt::format("step {}: '{}' of reducer {} is declared as replicated, and that of rank {} "
                    "differs from that of rank 0. Make its scope per_rank.",
                    step, name, reducer, rank));
}

}  // namespace gx::detail::trainer
