// Trainer<Model, Reducer, Scheduler, ...>: the one place that sees every role.
#pragma once

#include <algorithm>  // max
#include <chrono>     // wall seconds
#include <concepts>   // same_as
#include <exception>  // current_exception
#include <memory>     // unique_ptr: smaller worlds
#include <optional>   // resumed checkpoint
#include <string>     // names
#include <utility>    // move
#include <vector>     // options, erase_if

#include <gx/core/hash.hpp>              // hash_name
#include <gx/core/world_info.hpp>        // WorldInfo, RunTerms
#include <gx/core/cold.hpp>              // GX_COLD
#include <gx/core/device.hpp>            // explain_computes
#include <gx/io/problems.hpp>            // Problems
#include <gx/reflect/nondefault.hpp>     // nondefault
#include <gx/reflect/type_name.hpp>      // type_name
#include <gx/core/world.hpp>             // TrainingWorld, first_local_rank, is_root
#include <gx/loader/in_memory.hpp>       // InMemory
#include <gx/model/compute.hpp>          // Compute
#include <gx/model/concept.hpp>          // graph<M>()
#include <gx/optimizer/sgd.hpp>          // Sgd
#include <gx/reducer/name.hpp>           // reducer_name
#include <gx/scheduler/poly.hpp>         // Poly
#include <gx/scheduler/warmup.hpp>       // Warmup
#include <gx/trainer/composition.hpp>    // explain_composition
#include <gx/trainer/loss_scale.hpp>     // LossScale
#include <gx/trainer/option_list.hpp>    // add_options
#include <gx/trainer/options.hpp>        // TrainerOptions
#include <gx/trainer/rank/training.hpp>  // one rank's work
#include <gx/trainer/record.hpp>         // RunRecord
#include <gx/trainer/run_phases.hpp>     // RunPhase, Timetable
#include <gx/trainer/setup.hpp>          // checks, summary
#include <gx/trainer/worlds.hpp>         // Worlds

namespace gx {

/// Trains one network on any world.
///
///     Trainer<ResNet50, MultiRing<4, fp16>, Warmup<Poly<2>>> trainer({.batch = 32, .epochs = 90});
///     RunRecord record = trainer.train(world, data);
///
/// Behind the Scheduler come an Optimizer (Sgd), a Loader (InMemory<>), a LossScale (dynamic where
/// the wire or the device is in fp16, else static), a Compute (Compute<fp32>) and a Survival
/// (StopOnLoss), in any order; an omitted one is the default in brackets.
///
/// Every rank computes the gradient of its share of a step, the Reducer averages, every rank makes
/// the same update. Updates are counted by gradients: update u applies the mean of gradient u with
/// rate(u); a Reducer with staleness s makes it s steps late, and the last s follow the last step.
///
/// Errors: train() throws one gx::Error that lists every option that is wrong before it starts;
///         while it runs, one that names rank, step, bucket or layer, and operation. Files are
///         whole or absent.
///         A checkpoint of another composition, seed or training set is an error; other options
///         that change the trajectory are notes in the record (TrainerOptions).
/// Order:  equal options, data and rank count give equal bits in every world of the same device.
template <class M, class R, class S = Warmup<Poly<2>>, class... Policies>
class Trainer {
    static_assert(detail::trainer::explain_composition<M, R, S, Policies...>());
    using O = detail::trainer::optimizer_of<Policies...>;
    using L = detail::trainer::loader_of<Policies...>;
    using Scale = detail::trainer::loss_scale_of<R, Policies...>;
    using C = detail::trainer::compute_of<Policies...>;
    using V = detail::trainer::survival_of<Policies...>;

public:
    using Options = TrainerOptions<options_of<R>, options_of<S>, options_of<O>, options_of<Scale>,
                                   options_of<V>>;

    Trainer() = default;
    explicit Trainer(Options options) : options_(std::move(options)) {}

    [[nodiscard]] const Options& options() const { return options_; }
    /// Name of the composition as a program spells it: defaults omitted, the others in the order
    /// Optimizer, Loader, LossScale, Compute, Survival. Behind the Optimizer its options that are
    /// not the default: "Trainer<..., AdamW{.weight_decay = 0.1}>".
    GX_COLD [[nodiscard]] static std::string name(const options_of<O>& optimizer = {}) {
        std::string text = learning_name(optimizer);
        if constexpr (!std::same_as<V, StopOnLoss>)
            text.insert(text.size() - 1, ", " + type_name<V>());
        return text;
    }

    /// Trains on `data.train`, tests on `data.test` after each epoch; returns the run's record.
    /// `data` is a Split in memory, or Sources, of which each rank reads its share.
    /// Where every process of a world calls train(), each gets a record: losses, accuracies and
    /// weights are the run's; times, breakdown and bytes are those of its first rank. Only the root
    /// checks and writes the output folder; an error before the start stops all.
    template <class W>
    RunRecord train(W& world, const Split& data) const {
        return train(world, Sources{data.train, data.test});
    }
    template <class W>
    RunRecord train(W& world, const Sources& data) const {
        static_assert(explain_training_world<W>());
        if constexpr (TrainingWorld<W>)
            static_assert(explain_computes<typename W::Rank::Device, typename C::compute_type>());
        if constexpr (V::continues) static_assert(explain_shrinking_world<W>());
        const auto begin = std::chrono::steady_clock::now();
        Start start = start_or_stop_all(world, data);
        RunRecord record = describe(world, start.options);
        const auto timetable =
            detail::trainer::timetable_of(start.phases, world.ranks(), data.train.count());
        if (!options_.phases.empty()) {
            record.phases = detail::trainer::rows_of(start.phases, timetable);
            for (int number = 1; const PhaseRow& row : record.phases)
                record.notes.push_back(detail::trainer::note_of(row, number++));
        }
        const WorldInfo before = info_of(world);
        const double timed =
            before.timed_batch > 0 ? double(before.timed_batch) / start.options.batch : 1.0;
        detail::trainer::Job<Options> job{
            .options = start.options,
            .phases = start.phases,
            .graph = start.phases[0].graph,
            .data = data,
            .compares_data = SpansProcesses<W> && !ComparesTerms<typename W::Rank>,
            .plan = start.plan,
            .timetable = timetable,
            .schedulers = std::move(start.schedulers),
            .choices = choices(options_),
            .timed_images = timed,
            .first_local_rank = first_local_rank(world),
            .compute = element_type<typename C::compute_type>,
            .composition = learning_name({}),
            .resumed_from = start.options.resume};
        job.price = before.price;
        if (start.resume) go_on(job, *start.resume, before, record);
        WorldInfo after;
        if constexpr (V::continues) {
            after = run_until_done(world, job, start.options, record);
        } else {
            NoOptions carries;
            run_in(world, job, record, [&](int) -> NoOptions& { return carries; });
            detail::trainer::expect_whole(record, job.options.epochs);
            after = info_of(world);
        }
        detail::trainer::summarise(record, after, data, job.options.evaluate);
        record.wall_seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        return record;
    }

private:
    /// What decides the weights: all but what a lost rank changes.
    GX_COLD [[nodiscard]] static std::string learning_name(const options_of<O>& optimizer) {
        const std::string changed = nondefault(optimizer);
        std::string text =
            "Trainer<" + std::string(M::name) + ", " + reducer_name<R>() + ", " + type_name<S>();
        if (!std::same_as<O, Sgd> || !changed.empty()) text += ", " + optimizer_name(optimizer);
        if constexpr (!std::same_as<L, InMemory<>>) text += ", " + type_name<L>();
        if constexpr (!std::same_as<Scale, detail::trainer::default_loss_scale<R, Policies...>>)
            text += ", " + type_name<Scale>();
        if constexpr (!std::same_as<C, Compute<fp32>>) text += ", " + type_name<C>();
        return text + ">";
    }

    /// Runs one world. `carries(rank)`: what the survival keeps of that rank.
    template <class W>
    static void run_in(W& world, detail::trainer::Job<Options>& job, RunRecord& record,
                       auto carries) {
        TraceSink sink{.recording = false};
        constexpr bool traces = requires { world.trace_to(&sink); };
        if constexpr (traces) {
            world.trace_to(&sink);
            job.trace = &sink;
        }
        const auto end_trace = [&] {
            if constexpr (traces) {
                world.trace_to(nullptr);
                if (sink.spans.empty()) return;  // of another world
                record.spans = std::move(sink.spans);
                record.link_rates = std::move(sink.rates);
            }
        };
        try {
            world.run([&](auto& rank) {
                using Rank = std::remove_cvref_t<decltype(rank)>;
                if constexpr (ComparesTerms<Rank>) rank.compare(terms(job, rank.ranks()));
                RunRecord other;  // one rank of a process fills its record
                detail::trainer::with_memory(rank.rank(), job.options.batch, job.graph, [&] {
                    detail::trainer::RankTraining<R, S, O, L, Scale, V, Options, Rank>(
                        job, rank, rank.rank() == job.first_local_rank ? record : other,
                        carries(rank.rank()))
                        .run();
                });
            });
        } catch (...) {
            end_trace();
            throw;
        }
        end_trace();
    }

    /// Runs `first`, and smaller worlds until one has done all epochs; returns the last one's info.
    template <class W>
    GX_COLD WorldInfo run_until_done(W& first, detail::trainer::Job<Options>& job, Options& options,
                                     RunRecord& record) const {
        const V survival(options.survival);
        int number = 0;  // of the present world
        const int begun = job.resume ? job.resume->epoch : 0;
        detail::trainer::Worlds<R> worlds(first.ranks());
        std::unique_ptr<gx::detail::world::Smaller<W>> next;
        std::optional<Checkpoint> resume;
        const auto present = [&](auto f) { return next ? f(*next) : f(first); };
        for (;;) {
            const std::size_t known = record.losses.size();
            const std::exception_ptr error =
                present([&](auto& w) { return lost_in(w, job, record, worlds); });
            WorldInfo info = present([](auto& w) { return info_of(w); });
            worlds.end(info.event_hash, record.epochs.size());
            if (!error && std::ssize(record.epochs) == options.epochs) {
                info.event_hash = worlds.event_hash();
                for (const LossRow& row : record.losses)
                    record.notes.push_back(detail::trainer::note_of(row));
                return info;
            }
            auto left = present(
                [&](auto& w) { return w.survivors(worlds.lost(), survival.restart_time()); });
            const auto ranks = std::ssize(left.members);
            if (ranks == 0 || ranks == std::ssize(worlds.members())) {
                if (error) std::rethrow_exception(error);
                detail::trainer::expect_whole(record, options.epochs);
            }
            LossRow loss{.world = ++number,
                         .ranks = int(ranks),
                         .lost = worlds.shrink(left.members),
                         .error = detail::trainer::first_sentence(error)};
            if (record.losses.size() == known) detail::trainer::add_earlier(loss, job.loss);
            job.loss = std::move(loss);
            if (ranks < survival.fewest_ranks())
                detail::trainer::throw_too_few(job.loss, survival.fewest_ranks(), job.loss.error);
            next = std::move(left.world);
            plan_for(*next, job, options, survival.restart_time());
            if (survival.recovery() == Recovery::checkpoint)
                go_back(job, options, begun, worlds, resume, record);
        }
    }
    /// Runs one world; returns the error of a loss that it ends with.
    template <class W>
    [[nodiscard]] static std::exception_ptr lost_in(W& world, detail::trainer::Job<Options>& job,
                                                    RunRecord& record,
                                                    detail::trainer::Worlds<R>& worlds) {
        worlds.begin();
        try {
            run_in(world, job, record, [&](int rank) -> auto& { return worlds.carried(rank); });
        } catch (const LostRank&) {
            return std::current_exception();
        } catch (const DeviceLost&) {
            return std::current_exception();
        }
        return nullptr;
    }
    /// Makes `job` one of a world that follows a loss.
    template <class W>
    GX_COLD void plan_for(const W& world, detail::trainer::Job<Options>& job, Options& options,
                          Nanoseconds restart_time) const {
        job.plan = detail::trainer::plan_of(job.data.train.count(), world.ranks(), options.batch,
                                            options.epochs);
        options.scheduler = complete_options<S>(options_.scheduler, job.plan);
        job.schedulers = {options.scheduler};
        job.timetable =
            detail::trainer::timetable_of(job.phases, world.ranks(), job.data.train.count());
        Problems problems;
        for (const auto sentence : check_options<S>(options.scheduler))
            problems.add(std::string(sentence));
        problems.throw_if_any("gx: this run can't go on with the ranks that are left");
        job.price = info_of(world).price;
        job.first_local_rank = first_local_rank(world);
        job.restart_time = restart_time;
    }
    /// Makes all members of the next world go on from the newest checkpoint, or anew.
    GX_COLD void go_back(detail::trainer::Job<Options>& job, const Options& options, int begun,
                         detail::trainer::Worlds<R>& worlds, std::optional<Checkpoint>& resume,
                         RunRecord& record) const {
        auto found = detail::trainer::newest_whole(options.output, options.resume, begun + 1,
                                                   int(record.epochs.size()), job.graph);
        for (std::string& note : found.notes) record.notes.push_back(std::move(note));
        worlds.forget();
        job.resume = nullptr;
        // The rows are those of the run, where it has them.
        const Checkpoint* c = found.checkpoint ? &*found.checkpoint : nullptr;
        const bool has_rows = c && std::ssize(record.epochs) >= c->epoch;
        record.epochs.resize(has_rows ? std::size_t(c->epoch) : 0);
        std::erase_if(record.steps,
                      [&](const StepRow& row) { return !has_rows || row.step >= c->step; });
        if (!c) return;
        resume = std::move(found.checkpoint);
        detail::trainer::keep_members(*resume, worlds.wrote(resume->epoch), worlds.members());
        plan_from(job, *resume);
        job.resumed_from = std::move(found.file);
    }

    struct Start {
        Options options;  ///< complete
        Plan plan;
        std::vector<options_of<S>> schedulers;          ///< complete, of each phase
        std::vector<detail::trainer::RunPhase> phases;  ///< at least one
        std::optional<Checkpoint> resume;
    };
    [[nodiscard]] static detail::trainer::RunOptions plain(const Options& o, bool writes) {
        return {o.batch,  o.epochs,   o.seed,        o.label_smoothing, o.output,
                o.resume, o.evaluate, o.trace_steps, o.most_skips,      writes};
    }
    /// What a run starts from. Where other processes wait for this one, an error stops them too.
    template <class W>
    GX_COLD [[nodiscard]] Start start_or_stop_all(W& world, const Sources& data) const {
        try {
            detail::trainer::check_pixels(options_.pixels, TakesPixels<typename W::Rank::Device>,
                                          type_name<typename W::Rank::Device>());
            return start(data, world.ranks(), is_root(world));
        } catch (...) {
            if constexpr (SpansProcesses<W>)
                world.run(
                    [error = std::current_exception()](auto&) { std::rethrow_exception(error); });
            throw;
        }
    }
    GX_COLD [[nodiscard]] Start start(const Sources& data, int ranks, bool writes) const {
        Start s{.options = options_, .plan = {}, .schedulers = {}, .phases = {}, .resume = {}};
        s.plan = check(s, data, ranks, writes);
        s.phases = phases_of(s.options, data.train.info());
        const Options& o = s.options;
        if (!o.resume.empty())
            s.resume =
                detail::trainer::resumable(plain(o, writes), s.phases[0].graph,
                                           {learning_name({}), reducer_name<R>()}, data, ranks);
        return s;
    }
    /// The phases with their graphs, without a list of them one.
    GX_COLD [[nodiscard]] static std::vector<detail::trainer::RunPhase> phases_of(
        const Options& o, const SourceInfo& info) {
        std::vector<detail::trainer::RunPhase> phases;
        const auto add = [&](int first_epoch, int batch, int side, ImageShape input) {
            phases.push_back({first_epoch, batch, side,
                              gx::graph<M>({.input = input,
                                            .classes = info.classes,
                                            .label_smoothing = o.label_smoothing})});
        };
        if (o.phases.empty()) add(0, o.batch, 0, info.shape);
        for (const Phase& p : o.phases)
            add(p.first_epoch, p.batch, p.image_side,
                {info.shape.channels, p.image_side, p.image_side});
        Problems problems;
        for (std::size_t i = 1; i < phases.size(); ++i) {
            const std::string differs =
                detail::trainer::other_parameters(phases[0].graph, phases[i].graph);
            problems.check(differs.empty(),
                           detail::trainer::phase_name(o.phases, i) + ": " + differs);
        }
        problems.throw_if_any("gx: this run can't start");
        return phases;
    }
    /// Adds every problem of the phases; `misfit`: none of the data's own size matters then.
    GX_COLD static void check_phases(Problems& problems, Options& o, const SourceInfo& info,
                                     int ranks) {
        detail::trainer::check_phases(problems, o.phases, ranks, info.count);
        for (std::size_t i = 0; i < o.phases.size(); ++i) {
            if (o.phases[i].image_side < 1) continue;
            const int side = o.phases[i].image_side;
            const std::string misfit =
                detail::trainer::misfit<M>({info.shape.channels, side, side});
            problems.check(misfit.empty(),
                           detail::trainer::phase_name(o.phases, i) + ": " + misfit);
        }
        if constexpr (V::continues)
            problems.add("phases: " + type_name<V>() +
                         " goes on with one batch and image size: leave phases out, or "
                         "ContinueOnSurvivors, and resume from a checkpoint after a loss");
        o.batch = std::max(1, o.phases.front().batch);
    }
    /// Completes the options from the plan; throws one error that lists everything wrong.
    GX_COLD [[nodiscard]] static Plan check(Start& start, const Sources& data, int ranks,
                                            bool writes) {
        Options& o = start.options;
        Problems problems;
        const SourceInfo info = data.train.info();
        if (!o.phases.empty()) check_phases(problems, o, info, ranks);
        const Plan plan = detail::trainer::check_run(
            problems, plain(o, writes), data, ranks,
            o.phases.empty() ? detail::trainer::misfit<M>(info.shape) : std::string());
        if constexpr (!detail::trainer::LoadsASource<L>)
            problems.check(data.train.dataset() != nullptr,
                           type_name<L>() +
                               " loads data sets in memory only: give a Split, or "
                               "add a constructor from 'gx::SourceRef'");
        // A schedule for the batch of each phase; the options' own is that of the first.
        for (std::size_t i = 0; i < std::max(o.phases.size(), std::size_t{1}); ++i) {
            Plan of_phase = plan;
            if (i > 0 && problems.empty()) of_phase.global_batch = o.phases[i].batch * ranks;
            start.schedulers.push_back(complete_options<S>(o.scheduler, of_phase));
            for (const auto sentence : check_options<S>(start.schedulers.back()))
                problems.add((i > 0 ? detail::trainer::phase_name(o.phases, i) + ": " : "") +
                             std::string(sentence));
        }
        o.scheduler = start.schedulers.front();
        if constexpr (requires { R::check(o.reducer); })
            for (const auto sentence : R::check(o.reducer)) problems.add(std::string(sentence));
        if constexpr (requires { O::check(o.optimizer); })
            for (const auto sentence : O::check(o.optimizer)) problems.add(std::string(sentence));
        if constexpr (requires { Scale::check(o.loss_scale); })
            for (const auto sentence : Scale::check(o.loss_scale))
                problems.add(std::string(sentence));
        if constexpr (requires { V::check(problems, o.survival, ranks, true); })
            V::check(problems, o.survival, ranks, !o.output.empty());
        problems.throw_if_any("gx: this run can't start");
        return plan;
    }
    /// Makes `job` go on from `c` by progress in the data, and notes what changes.
    GX_COLD void go_on(detail::trainer::Job<Options>& job, const Checkpoint& c,
                       const WorldInfo& world, RunRecord& record) const {
        plan_from(job, c);
        job.changes = detail::trainer::changes(c, job.choices, world);
        if (!job.rescaled.empty()) job.changes.insert(job.changes.begin(), job.rescaled);
        job.mixed_clocks = c.clock != world.clock;
        job.notes = c.notes;
        for (const std::string& change : job.changes) job.notes.push_back(change + ".");
        record.notes.insert(record.notes.end(), job.notes.begin(), job.notes.end());
    }
    /// The plan that `c` was written under, and the present one.
    GX_COLD void plan_from(detail::trainer::Job<Options>& job, const Checkpoint& c) const {
        using detail::trainer::Timetable;
        job.resume = &c;
        const std::vector<Timetable::Entry> phases = detail::trainer::phases_before(c);
        job.timetable_before = Timetable(c.images, phases);
        job.schedulers_before.clear();
        Plan plan = detail::trainer::plan_of(
            c.images, c.ranks, int(phases[0].global_batch / c.ranks), job.options.epochs);
        for (const Timetable::Entry& p : phases) {
            plan.global_batch = int(p.global_batch);
            job.schedulers_before.push_back(complete_options<S>(options_.scheduler, plan));
            if (check_options<S>(job.schedulers_before.back()).empty()) continue;
            job.timetable_before = job.timetable;  // the options suit the new plan only
            job.schedulers_before = job.schedulers;
            break;
        }
        const int phase = job.timetable.phase_of_epoch(c.epoch - 1);
        job.rescaled = detail::trainer::rescaled(c, job.plan, job.phases[std::size_t(phase)].batch,
                                                 job.timetable.steps_per_epoch(phase));
    }
    /// The options that change the trajectory, as given: those of the policies before they are
    /// completed from the plan.
    GX_COLD [[nodiscard]] static std::vector<Checkpoint::Option> choices(const Options& o) {
        using detail::trainer::add_options;
        std::vector<Checkpoint::Option> out;
        add_options(out, "epochs", o.epochs);
        add_options(out, "phases", o.phases);
        add_options(out, "label_smoothing", o.label_smoothing);
        add_options(out, "reducer", o.reducer);
        add_options(out, "scheduler", o.scheduler);
        add_options(out, "optimizer", o.optimizer);
        add_options(out, "loss_scale", o.loss_scale);
        return out;
    }

    /// What a rank compares with the others before it starts.
    GX_COLD [[nodiscard]] static RunTerms terms(const detail::trainer::Job<Options>& job,
                                                int ranks) {
        std::string options = "batch=" + std::to_string(job.options.batch) +
                              ";evaluate=" + std::to_string(job.options.evaluate) +
                              ";from=" + std::to_string(job.resume ? job.resume->step : -1);
        for (const Checkpoint::Option& o : job.choices) options += ";" + o.name + "=" + o.value;
        return {.composition = job.composition,
                .seed = job.options.seed,
                .options_hash = hash_name(options),
                .ranks = ranks,
                .source = detail::trainer::description(job.data, job.options.evaluate)};
    }

    GX_COLD [[nodiscard]] static std::string optimizer_name(const options_of<O>& o) {
        const std::string changed = nondefault(o);
        return changed.empty() ? type_name<O>() : type_name<O>() + "{" + changed + "}";
    }

    template <class W>
    [[nodiscard]] static WorldInfo info_of(const W& world) {
        if constexpr (requires {
                          { world.info() } -> std::same_as<WorldInfo>;
                      })
            return world.info();
        else return {.world = type_name<W>()};
    }
    template <class W>
    [[nodiscard]] static RunRecord describe(const W& world, const Options& o) {
        const WorldInfo a = info_of(world);
        RunRecord r{.composition = name(),
                    .model = std::string(M::name),
                    .reducer = reducer_name<R>(),
                    .scheduler = type_name<S>(),
                    .optimizer = optimizer_name(o.optimizer),
                    .device = type_name<typename W::Rank::Device>(),
                    .world = a.world,
                    .clock = a.clock,
                    .timed_as = a.timed_as,
                    .notes = a.notes};
        r.ranks = world.ranks();
        r.batch_per_rank = o.batch;
        r.epochs_planned = o.epochs;
        r.seed = o.seed;
        return r;
    }
    Options options_{};
};

}  // namespace gx
