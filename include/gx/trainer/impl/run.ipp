// Bodies of run.hpp.
#pragma once

#include <algorithm>  // max
#include <cmath>      // isnan, sqrt
#include <exception>  // exception_ptr
#include <ranges>     // reverse
#include <set>        // sizes
#include <string>     // names
#include <utility>    // move, pair

#include <fmt/core.h>  // sentences

#include <gx/core/cold.hpp>                          // GX_COLD
#include <gx/core/error.hpp>                         // Error
#include <gx/core/hash_bits.hpp>                     // hash_bits
#include <gx/io/atomic_file.hpp>                     // AtomicFile
#include <gx/io/build_id.hpp>                        // build_id
#include <gx/io/folder_lock.hpp>                     // FolderLock
#include <gx/io/json_value.hpp>                      // read_json
#include <gx/trainer/monitor/checkpoint_writer.hpp>  // CheckpointWriter
#include <gx/trainer/monitor/step_gate.hpp>          // StepGate
#include <gx/trainer/monitor/watchers.hpp>           // Watchers
#include <gx/trainer/rank/accounts.hpp>              // Accounts
#include <gx/trainer/rows.hpp>                       // read_rows
#include <gx/trainer/run.hpp>
#include <gx/trainer/safetensors.hpp>  // read_safetensors_metadata

namespace gx::detail::trainer {

GX_DECL Run::Run(RunComposition composition_in, RunOptions options_in, const Sources& data_in)
    : composition(std::move(composition_in)),
      options(std::move(options_in)),
      data(data_in),
      skipped_before{data.train.skipped().count, data.test.skipped().count} {}
GX_DECL Run::Run(Run&&) noexcept = default;
GX_DECL Run::~Run() = default;

GX_DECL Graph Run::graph_at(ImageShape shape) const {
    const std::string name = "gx: test images of " + std::to_string(shape.height) + " x " +
                             std::to_string(shape.width) + " (height x width): ";
    const std::string sentence = misfit(composition.model, composition.trouble, shape);
    if (!sentence.empty()) throw Error(name + sentence + ", or test square images");
    const Graph at = composition.graph({.input = shape,
                                        .classes = data.train.info().classes,
                                        .label_smoothing = options.label_smoothing});
    if (const std::string differs = other_parameters(graph(), at); !differs.empty())
        throw Error(name + differs + ", or test square images");
    return at;
}

/// Adds every problem of the phases.
GX_COLD GX_DECL void check_phases(Problems& problems, const RunComposition& composition,
                                  RunOptions& o, const Sources& data, int ranks) {
    const SourceInfo info = data.train.info();
    check_phases(problems, o.phases, ranks, info.count);
    for (std::size_t i = 0; i < o.phases.size(); ++i) {
        const int side = o.phases[i].image_side;
        if (side < 1) continue;
        const std::string sentence =
            misfit(composition.model, composition.trouble, {info.shape.channels, side, side});
        problems.check(sentence.empty(), phase_name(o.phases, i) + ": " + sentence);
        const auto check_size = [&](const char* role, const SourceRef& set) {
            const std::string flaw = set.flaw_at({info.shape.channels, side, side});
            problems.check(flaw.empty(), phase_name(o.phases, i) + ": " + role + " set '" +
                                             set.info().name + "': " + flaw);
        };
        check_size("training", data.train);
        if (o.evaluate) check_size("test", data.test);
    }
    o.batch = std::max(1, o.phases.front().batch);
}

/// The schedule for the batch of each phase; adds what is wrong with them.
GX_COLD GX_DECL std::vector<Schedule> schedules_of(Problems& problems,
                                                   const RunComposition& composition,
                                                   const RunOptions& o, const Plan& plan) {
    std::vector<Schedule> schedules;
    for (std::size_t i = 0; i < std::max(o.phases.size(), std::size_t{1}); ++i) {
        Plan of_phase = plan;
        if (i > 0 && problems.empty()) of_phase.global_batch = o.phases[i].batch * plan.ranks;
        schedules.push_back(composition.schedule(of_phase));
        for (const auto sentence : schedules.back().findings)
            problems.add((i > 0 ? phase_name(o.phases, i) + ": " : "") + std::string(sentence));
    }
    return schedules;
}

/// The rates of schedules without findings.
GX_COLD GX_DECL std::vector<Rate> rates_of(const std::vector<Schedule>& schedules) {
    std::vector<Rate> rates;
    for (const Schedule& s : schedules) rates.push_back(s.make());
    return rates;
}

/// The phases with their graphs; without a list of them one.
GX_COLD GX_DECL std::vector<RunPhase> phases_of(const RunComposition& composition,
                                                const RunOptions& o, const SourceInfo& info) {
    std::vector<RunPhase> phases;
    const auto add = [&](int first_epoch, int batch, int side, ImageShape input) {
        phases.push_back(
            {first_epoch, batch, side, batch / o.micro_batches,
             composition.graph(
                 {.input = input, .classes = info.classes, .label_smoothing = o.label_smoothing})});
    };
    if (o.phases.empty()) add(0, o.batch, 0, info.shape);
    for (const Phase& p : o.phases)
        add(p.first_epoch, p.batch, p.image_side,
            {info.shape.channels, p.image_side, p.image_side});
    Problems problems;
    for (std::size_t i = 1; i < phases.size(); ++i) {
        const std::string differs = other_parameters(phases[0].graph, phases[i].graph);
        problems.check(differs.empty(), phase_name(o.phases, i) + ": " + differs);
    }
    problems.throw_if_any("gx: this run can't start");
    return phases;
}

/// Throws unless the network takes the test images of every epoch, where they vary in shape.
GX_COLD GX_DECL void expect_views_fit(const Run& run) {
    Problems problems;
    for (std::size_t i = 0; i < run.phases.size(); ++i) {
        const RunPhase& p = run.phases[i];
        const int end =
            i + 1 < run.phases.size() ? run.phases[i + 1].first_epoch : run.options.epochs;
        std::set<std::pair<int, int>> seen{{p.graph.input.height, p.graph.input.width}};
        try {
            for (int epoch = p.first_epoch; epoch < end; ++epoch)
                for (const SampleView& view : run.data.test.views(p.graph.input, epoch, p.batch))
                    if (seen.emplace(view.shape.height, view.shape.width).second)
                        (void)run.graph_at(view.shape);
        } catch (const Error& e) {
            if (run.options.phases.empty()) throw;
            std::string_view sentence = e.what();
            if (sentence.starts_with("gx: ")) sentence.remove_prefix(4);
            problems.add(phase_name(run.options.phases, i) + ": test set '" +
                         run.data.test.info().name + "': " + std::string(sentence));
        }
    }
    problems.throw_if_any("gx: this run can't start");
}

/// What changes as `run` goes on from its checkpoint.
GX_COLD GX_DECL void compare_with_checkpoint(Run& run) {
    const Checkpoint& c = *run.resume;
    const int phase = run.timetable.phase_of_epoch(c.epoch - (c.is_within() ? 0 : 1));
    run.rescaled = rescaled(c, run.plan, run.phases[std::size_t(phase)].batch,
                            run.timetable.steps_per_epoch(phase));
}

/// Of a run that begins anew in `folder`.
GX_COLD GX_DECL std::vector<std::string> warnings_of(const std::filesystem::path& folder) {
    if (folder.empty()) return {};
    auto files = checkpoint_files(folder);
    std::error_code gone;
    std::erase_if(files, [&](const auto& entry) { return !entry.is_regular_file(gone); });
    if (files.empty()) return {};
    const auto first = std::ranges::min(files).path().filename().string();
    return {fmt::format(
        "output folder '{}' held {} checkpoint{} of an earlier run when this one began anew, such "
        "as '{}': those of the same names are replaced. To go on with that run set resume to "
        "'latest'; to keep them name another 'output'.",
        folder.string(), files.size(), files.size() == 1 ? "" : "s", first)};
}

/// Of a warm-up that the run does not end. Phases change rates on purpose.
GX_COLD GX_DECL void warn_of_rising_rate(Run& run) {
    const Step last = run.plan.total_steps - 1;
    if (run.rates.size() != 1 || last < 1) return;
    const float before = run.rates[0](last - 1), rate = run.rates[0](last);
    if (rate > before && rate > run.rates[0](0))
        run.warnings.push_back(fmt::format(
            "the learning rate still rises at the last of {} steps, to {:.3g}: a warm-up is to end "
            "before the run does. Let it end earlier ('climb_steps' of Warmup, 'points' of "
            "PiecewiseLinear), or train longer.",
            last + 1, rate));
}

GX_COLD GX_DECL void warn_of_phases_behind_the_end(Run& run) {
    const RunOptions& o = run.options;
    for (std::size_t i = 0; i < o.phases.size(); ++i)
        if (o.phases[i].first_epoch >= o.epochs)
            run.warnings.push_back(
                fmt::format("phase {} never begins: it is from epoch {} on, counted from 0, and "
                            "the run has {}. Let it begin earlier, or train longer.",
                            i + 1, o.phases[i].first_epoch, o.epochs));
}

/// Whether a run with these sources, seed and policies has written it.
GX_COLD GX_DECL bool is_of_such_a_run(const Run& run, const Checkpoint& c) {
    return c.composition == run.composition.name && c.seed == run.options.seed &&
           c.images == run.data.train.count() && c.data_hash == run.data_hash;
}

/// Checkpoint::progress(), as the file's metadata say, so that few files are read whole.
GX_COLD GX_DECL Checkpoint::Progress said_progress(const std::filesystem::path& file) {
    const auto metadata = read_safetensors_metadata(file);
    const auto text = metadata.find("gx");
    if (text == metadata.end()) return {};
    const JsonValue state = read_json(text->second);
    const JsonValue* const within = state.find("within");
    return {state.at("epoch").integer<int>(),
            within == nullptr ? 0 : within->at("images").integer()};
}

/// Refuses `c`, which `file` holds, as the latest where an older checkpoint of its folder is of
/// such a run and further, as in a folder that was copied: epochs would be done twice, and written
/// over it.
GX_COLD GX_DECL void expect_furthest(const Run& run, const Checkpoint& c,
                                     const std::filesystem::path& file) {
    std::error_code gone;
    const auto time = std::filesystem::last_write_time(file, gone);
    Checkpoint::Progress most = c.progress();
    std::string furthest, place;
    for (const auto& entry : checkpoint_files(file.parent_path())) {
        if (entry.last_write_time(gone) > time || gone) continue;  // newer ones can't be used
        try {
            if (said_progress(entry.path()) <= most) continue;
            const Checkpoint other = read_checkpoint(entry.path(), run.graph());
            if (other.progress() <= most || !is_of_such_a_run(run, other)) continue;
            most = other.progress();
            furthest = entry.path().filename().string();
            place = other.place();
        } catch (const Error&) {  // one that can't be used is no better
        }
    }
    if (furthest.empty()) return;
    throw Error("gx: this run can't start: resume is 'latest', and in '" +
                file.parent_path().string() + "' the newest checkpoint by its time is '" +
                file.filename().string() + "' (" + c.place() + "), but '" + furthest +
                "', of the same composition, data and seed, is further (" + place +
                "). If the folder was copied name that one as 'resume'; to do these epochs again "
                "name the newest, or move the further one away.");
}

/// Of epochs' checkpoints that are there, and that the run will replace: it would train until it
/// can't.
/// Errors: gx::Error for one that can't be replaced, unless the run goes on then.
GX_COLD GX_DECL void expect_replaceable(const Run& run) {
    const RunOptions& o = run.options;
    if (!o.writes || o.output.empty() || !o.checkpoints.stop_on_failure) return;
    const int done = run.resume ? run.resume->epoch : 0;
    for (const auto& entry : checkpoint_files(o.output)) {
        const auto of = checkpoint_number(entry.path().filename().string());
        if (of && of->of_epoch && of->number > done && of->number <= o.epochs)
            (void)gx::detail::AtomicFile(entry.path());
    }
}

GX_DECL Run start_run(RunComposition composition, RunOptions options, const Sources& data,
                      const RunWorld& world) {
    check_pixels(options.pixels, world.takes_pixels, world.device);
    check_mixed(data, options.evaluate, world.takes_second_labels, world.device);
    Run run(std::move(composition), std::move(options), data);
    RunOptions& o = run.options;
    const SourceInfo info = data.train.info();
    Problems problems;
    if (!o.phases.empty()) check_phases(problems, run.composition, o, data, world.ranks);
    run.plan = check_run(problems, o, data, world.ranks,
                         o.phases.empty()
                             ? misfit(run.composition.model, run.composition.trouble, info.shape)
                             : std::string());
    if (!run.composition.loads_any_source)
        problems.check(data.train.dataset() != nullptr,
                       run.composition.loader +
                           " loads data sets in memory only: give a Split, or "
                           "add a constructor from 'gx::SourceRef'");
    problems.check(
        !run.composition.survives || (o.checkpoints.every_minutes == 0 && o.stop == nullptr),
        "a run that continues on survivors writes checkpoints after epochs, and after so many "
        "steps alone: leave out 'stop' and 'checkpoints.every_minutes', or ContinueOnSurvivors");
    problems.check(
        !run.composition.survives || run.composition.goes_back || o.checkpoints.every_steps == 0,
        "a run that continues on survivors from what they hold writes checkpoints after "
        "epochs alone: leave out 'checkpoints.every_steps', or set survival.recovery to "
        "gx::Recovery::checkpoint");
    const auto schedules = schedules_of(problems, run.composition, o, run.plan);
    run.composition.check_policies(problems, world.ranks);
    problems.throw_if_any("gx: this run can't start");
    if (o.writes && !o.output.empty()) run.output = std::make_shared<const FolderLock>(o.output);

    run.phases = phases_of(run.composition, o, info);
    if (o.evaluate) expect_views_fit(run);
    with_memory(
        world.first_local_rank, [&]() -> auto& { return run.phases[0]; },
        [&] { run.rates = rates_of(schedules); });
    warn_of_rising_rate(run);
    warn_of_phases_behind_the_end(run);
    run.timetable = timetable_of(run.phases, world.ranks, info.count);
    run.compares_data = world.compares_data;
    run.first_local_rank = world.first_local_rank;
    run.price = world.info.price;
    run.watchers = std::make_unique<Watchers>(o.observers, o.progress, o.writes);
    run.gate = std::make_unique<StepGate>(o.stop, o.checkpoints.every_minutes);
    if (o.writes && !o.output.empty())
        run.writer = std::make_unique<CheckpointWriter>(run.graph(), o.checkpoints.keep);
    run.in_one_process = world.in_one_process;
    if (!o.output.empty() || !o.resume.empty()) {
        run.data_hash = data_hash(data.train);
        if (o.evaluate) run.test_data_hash = data_hash(data.test);
    }
    std::vector<std::string> damaged;
    const bool latest = o.resume == "latest";
    if (latest) {
        FoundCheckpoint found = latest_checkpoint(o.output, run.graph());
        if (!found.checkpoint && !found.errors.empty())
            throw Error("gx: this run can't start: resume is 'latest', no checkpoint in '" +
                        o.output.string() +
                        "' can be used, and a run that begins anew would overwrite them. The "
                        "newest: " +
                        found.errors[0] + " To begin anew name another 'output'.");
        o.resume = std::move(found.file);
        if (found.checkpoint) expect_furthest(run, *found.checkpoint, o.resume);
        for (const std::string& error : found.errors)
            damaged.push_back("A checkpoint as new or newer can't be used: " + error);
    }
    if (o.resume.empty()) {
        if (o.writes)
            for (std::string& warning : warnings_of(o.output))
                run.warnings.push_back(std::move(warning));
        expect_replaceable(run);
        const InitialWeights& from = run.composition.weights;
        if (from.file.empty() && from.last_deviation == 0) return run;
        problems.collect([&] {
            run.initial = initial_weights(run.graph(), o.seed, from.last_deviation);
            if (!from.file.empty())
                run.initial = read_weights(from, run.graph(), *std::move(run.initial));
        });
        problems.throw_if_any("gx: this run can't start");
        return run;
    }

    run.resume = resumable(o, run.graph(),
                           {run.composition.name, run.composition.reducer,
                            run.composition.survives && !run.composition.goes_back, latest},
                           data, run.data_hash, world.ranks);
    run.resumed_from = o.resume;
    run.is_over = run.resume->epoch == o.epochs && !last_without_test(run);
    expect_replaceable(run);
    if (run.resume->epoch < o.epochs) compare_with_checkpoint(run);
    run.changes = changes(*run.resume, run.composition.choices, world.info);
    if (run.resume->test_data_hash != 0 && run.test_data_hash != 0 &&
        run.resume->test_data_hash != run.test_data_hash)
        run.changes.push_back("resumed " + run.resume->place() +
                              " with other test images: accuracies of earlier epochs are not of '" +
                              data.test.info().name + "'");
    if (!o.evaluate) run.test_data_hash = run.resume->test_data_hash;  // of earlier epochs
    if (!run.rescaled.empty()) run.changes.insert(run.changes.begin(), run.rescaled);
    run.mixed_clocks = run.resume->clock != world.info.clock;
    run.notes = run.resume->notes;
    run.notes.insert(run.notes.end(), damaged.begin(), damaged.end());
    for (const std::string& change : run.changes) run.notes.push_back(change + ".");
    return run;
}

GX_DECL RunRecord record_of(const Run& run, const RunWorld& world) {
    RunRecord r{.model = std::string(run.composition.model),
                .reducer = run.composition.reducer,
                .device = world.device,
                .world = world.info.world,
                .clock = world.info.clock,
                .timed_as = world.info.timed_as,
                .notes = world.info.notes};
    r.ranks = world.ranks;
    r.batch_per_rank = run.options.batch;
    r.epochs_planned = run.options.epochs;
    r.seed = run.options.seed;
    if (run.options.micro_batches > 1)
        r.notes.push_back("Each rank's batch is computed in " +
                          std::to_string(run.options.micro_batches) +
                          " micro-batches, whose gradients are summed.");
    if (const std::int64_t images = run.data.train.count();
        run.phases.size() == 1 && images < run.plan.global_batch)
        r.notes.push_back(
            fmt::format("Every step takes all {} training images: batch {} on {} ranks is {}.",
                        images, run.options.batch, world.ranks, run.plan.global_batch));
    if (!run.options.deterministic)
        r.notes.push_back(
            "Kernels may sum in an order that changes from run to run, where the "
            "device has such: 'deterministic' is false.");
    if (!run.options.phases.empty()) {
        r.phases = rows_of(run.phases, run.timetable);
        for (int number = 1; const PhaseRow& row : r.phases)
            r.notes.push_back(note_of(row, number++));
    }
    r.notes.insert(r.notes.end(), run.notes.begin(), run.notes.end());
    r.warnings = run.warnings;
    return r;
}

/// Warns if the last test accuracy is within three standard deviations of guessing the most
/// frequent class of the test set. 100 % is no chance, however few the images.
GX_COLD GX_DECL void warn_of_chance(RunRecord& r, const SourceRef& test) {
    const std::int64_t count = test.count(), most = test.largest_class();
    if (r.epochs.empty() || count == 0 || most == 0) return;
    const auto images = double(count);
    const double chance = double(most) / images;
    const double deviation = std::sqrt(chance * (1 - chance) / images);
    const double accuracy = r.test_accuracy_pct();
    r.at_chance = accuracy < 100 && accuracy <= 100 * (chance + 3 * deviation);
    if (r.at_chance)
        r.warnings.push_back(fmt::format(
            "test accuracy {:.2f} % is within three standard deviations of chance: the most "
            "frequent "
            "class is {:.2f} % of {} images. Lower the learning rate, train longer or test on more "
            "images.",
            accuracy, 100 * chance, count));
}

/// Warns of what the sources of a run have left out. With several processes each reads its share.
GX_COLD GX_DECL void warn_of_left_out(RunRecord& r, const Run& run) {
    const Sources& data = run.data;
    const bool tests = run.options.evaluate && data.test.count() > 0;
    const auto warn = [&](const std::string& set, const SourceRef& source, std::int64_t before) {
        const auto why = [](const LeftOut& of) {
            return of.first.empty() ? "" : " The first: " + of.first;
        };
        const std::string here =
            run.in_one_process ? ""
                               : fmt::format("in the process of rank {}, ", run.first_local_rank);
        if (const LeftOut now = source.skipped(before); now.count > 0)
            r.warnings.push_back(fmt::format(
                "{} set: {}{} time{} a sample that was read could not be decoded, and another one "
                "took its place.{}",
                set, here, now.count, now.count == 1 ? "" : "s", why(now)));
        if (const LeftOut index = source.left_out(); index.count > 0)
            r.warnings.push_back(fmt::format(
                "{} set: {} file{} or record{} can't be read, and {} left out of its {} images.{}",
                set, index.count, index.count == 1 ? "" : "s", index.count == 1 ? "" : "s",
                index.count == 1 ? "is" : "are", source.count(), why(index)));
    };
    const bool one = tests && data.train.is_same(data.test);
    warn(one ? "training and test" : "training", data.train, run.skipped_before[0]);
    if (tests && !one) warn("test", data.test, run.skipped_before[1]);
}

GX_DECL void summarise(RunRecord& r, const WorldInfo& a, const Run& run) {
    if (std::isnan(r.seconds)) {
        r.images_per_second = r.exposed_communication_pct = r.seconds;
    } else if (r.seconds > 0) {
        r.images_per_second = double(r.images) / r.seconds;
        if (r.undisturbed_seconds > 0)
            r.scaling_efficiency_pct = std::min(100.0, 100 * r.undisturbed_seconds / r.seconds);
        r.exposed_communication_pct = 100 * r.breakdown.exposed_communication / r.seconds;
    }
    r.event_hash = a.event_hash;
    if (r.skipped_steps > 0)
        r.warnings.push_back(
            fmt::format("{} of {} steps were skipped{} gradients had infinities or NaN.",
                        r.skipped_steps, r.epochs.empty() ? 0 : r.epochs.back().step,
                        run.composition.updates_apart ? " by at least one rank, because its own"
                                                      : ", because averaged"));
    warn_of_left_out(r, run);
    if (run.options.evaluate) warn_of_chance(r, run.data.test);
}

GX_DECL void fail(Run& run, const std::exception_ptr& error) noexcept {
    std::vector<CheckpointWriter::News> news;
    std::vector<CheckpointWritten> left;
    try {
        if (run.writer) {
            run.writer->finish();
            news = run.writer->take_news();
        }
        for (const CheckpointWriter::News& one : news)
            if (one.error.empty()) left.push_back({one.file, one.step});
    } catch (...) {  // out of memory; the run has its error
    }
    run.watchers->run_failed(error, left);
}

GX_DECL std::optional<EpochRow> last_without_test(const Run& run) {
    if (!run.options.evaluate || !run.resume || run.composition.survives) return {};
    RunRecord record;
    read_rows(run.resume->record, record);
    if (record.epochs.empty() || !std::isnan(record.epochs.back().test_loss)) return {};
    return record.epochs.back();
}

GX_DECL void restore_record(const Run& run, RunRecord& record) {
    restore_rows(record, *run.resume, run.resumed_from);
    Accounts accounts{.mixed_clocks = run.mixed_clocks};
    accounts.resume(*run.resume);
    accounts.breakdown = record.breakdown;
    accounts.write(record);
    record.weights_hash = hash_bits(run.resume->parameters);
    if (run.options.evaluate && std::isnan(record.test_accuracy_pct()))
        record.warnings.push_back(
            "The last epoch has no test, and a run that continues on survivors makes none when it "
            "is over: test the weights by a run without ContinueOnSurvivors.");
    record.notes.push_back(
        fmt::format("All {} epochs had been done: this run has trained nothing, and its figures "
                    "are those of '{}', which holds no bytes sent and no timeline.",
                    run.options.epochs, run.resumed_from.string()));
}

GX_COLD GX_DECL std::string hash_text(std::span<const float> values) {
    return fmt::format("{:016x}", hash_bits(values));
}
GX_DECL RunTerms terms_of(const Run& run, int ranks) {
    std::string options = fmt::format("batch={}\nevaluate={}\n", run.options.batch,
                                      run.options.evaluate ? "yes" : "no");
    const auto add = [&](std::string_view name, const auto& value) {
        options += fmt::format("{}={}\n", name, value);
    };
    if (run.resume) {
        add("resume (the step of the checkpoint)", run.resume->step);
        add("resume (a hash of its weights)", hash_text(run.resume->parameters));
        add("resume (whether nothing is left to do)", run.is_over ? "yes" : "no");
    }
    if (run.initial) add("weights (a hash of theirs)", hash_text(run.initial->parameters));
    if (run.gate->armed())  // all processes ask behind each step
        add("stop or checkpoints.every_minutes", "given");
    if (run.options.checkpoints.every_steps > 0)
        add("checkpoints.every_steps", run.options.checkpoints.every_steps);
    for (const Checkpoint::Option& o : run.composition.choices) add(o.name, o.value);
    // Other code may round otherwise.
    add("program (its build id; copy one build to all machines)", build_id());
    return {.composition = run.composition.name,
            .seed = run.options.seed,
            .options = options,
            .ranks = ranks,
            .source = description(run.data, run.options.evaluate)};
}

GX_DECL void plan_for_survivors(Run& run, const RunWorld& world, Nanoseconds restart_time) {
    const std::int64_t images = run.data.train.count();
    run.plan = plan_of(images, world.ranks, run.options.batch, run.options.epochs);
    Problems problems;
    const auto schedules = schedules_of(problems, run.composition, run.options, run.plan);
    run.timetable = timetable_of(run.phases, world.ranks, images);
    problems.throw_if_any("gx: this run can't go on with the ranks that are left");
    run.rates = rates_of(schedules);
    run.price = world.info.price;
    run.first_local_rank = world.first_local_rank;
    run.restart_time = restart_time;
}

/// The checkpoints that a run may go back to, the newest first: those since the one that the
/// present world began with, that one, and those of epochs before.
GX_COLD GX_DECL std::vector<std::filesystem::path> to_go_back_to(const Run& run, int begun,
                                                                 Written written) {
    const std::filesystem::path& folder = run.options.output;
    std::vector<std::filesystem::path> files;
    const auto add_epochs = [&](int from, int down_to) {
        for (int epoch = from; epoch > down_to; --epoch)
            files.push_back(folder / checkpoint_name(epoch));
    };
    const auto [step, before] = written.within;
    const auto add_epochs_and_step = [&](int from, int down_to) {
        if (step > 0 && before <= from && before >= down_to) {
            add_epochs(from, before);
            files.push_back(folder / step_checkpoint_name(step));
            from = before;
        }
        add_epochs(from, down_to);
    };
    const bool within = run.resume && run.resume->is_within();
    const int began = within ? std::max(begun, run.resume->epoch) : begun;
    add_epochs_and_step(written.epochs, began);
    if (within) files.push_back(run.resumed_from);
    add_epochs(began, begun);
    if (!run.options.resume.empty()) files.push_back(run.options.resume);
    return files;
}

/// What shows that another run has written a checkpoint in this one's folder: this one's own may
/// have failed to take its place.
GX_COLD GX_DECL std::string flaw_of(const Run& run, const Checkpoint& c) {
    if (run.resume && c.step <= run.resume->step) return "";  // that it began with, or before it
    const bool own = is_of_such_a_run(run, c) && c.options == run.composition.choices;
    return own ? "" : "is of another run, which has used the same folder";
}

GX_COLD GX_DECL void add_errors(const Return& found, RunRecord& record) {
    for (const std::string& error : found.errors)
        record.notes.push_back("An older checkpoint is used, because of this one: " + error);
}

GX_DECL WrittenStep newest_whole(const Run& run, const std::vector<WrittenStep>& all,
                                 RunRecord& record) {
    if (run.writer) run.writer->finish();
    const auto flaw = [&](const Checkpoint& c) { return flaw_of(run, c); };
    const int epochs = static_cast<int>(std::ssize(record.epochs));
    const auto search = [&](bool since_the_last_epoch) -> WrittenStep {
        std::vector<std::filesystem::path> files;
        for (const WrittenStep& one : all | std::views::reverse) {
            if ((one.epochs == epochs) != since_the_last_epoch) continue;
            auto file = run.options.output / step_checkpoint_name(one.step);
            std::error_code unknown;  // then it is read, and its error told
            if (std::filesystem::exists(file, unknown) || unknown) files.push_back(std::move(file));
        }
        const Return found = newest_whole(files, run.graph(), flaw);
        add_errors(found, record);
        if (!found.checkpoint) return {};
        return {found.checkpoint->step, found.checkpoint->epoch};
    };
    if (const WrittenStep newest = search(true); newest.step > 0) return newest;
    const bool has_older =
        std::ranges::any_of(all, [&](const WrittenStep& one) { return one.epochs != epochs; });
    if (!has_older) return {};
    const auto of_epoch = run.options.output / checkpoint_name(epochs);
    if (newest_whole({of_epoch}, run.graph(), flaw).checkpoint) return {};
    return search(false);
}

GX_DECL void go_back(Run& run, Membership& members, int begun, Written written, RunRecord& record) {
    Return found = newest_whole(to_go_back_to(run, begun, written), run.graph(),
                                [&](const Checkpoint& c) { return flaw_of(run, c); });
    if (!found.checkpoint && !run.options.resume.empty())
        throw Error(fmt::format(
            "ranks were lost, and no checkpoint to go back to can be used, '{}' included, which "
            "this run was resumed from. Restore one of them, and resume from it. The newest: {}",
            run.options.resume.string(), found.errors.front()));
    add_errors(found, record);
    run.resume = std::move(found.checkpoint);
    // The rows are those of the run, where it has them.
    const bool has_rows = run.resume && std::ssize(record.epochs) >= run.resume->epoch;
    const std::int64_t first =  // of the epoch that it goes on in
        run.resume ? run.resume->step - std::ssize(run.resume->within.sums) / 3 : 0;
    record.epochs.resize(has_rows ? std::size_t(run.resume->epoch) : 0);
    std::erase_if(record.steps, [&](const StepRow& row) { return !has_rows || row.step >= first; });
    const std::vector<int> before = members.go_back_to(run.resume ? run.resume->step : 0);
    if (!run.resume) return;
    keep_members(*run.resume, before, members.now());
    compare_with_checkpoint(run);
    run.resumed_from = std::move(found.file);
}

}  // namespace gx::detail::trainer
