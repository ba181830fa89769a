// Trainer<Model, Reducer, Scheduler, ...>: the one place that sees every role.
#pragma once

#include <chrono>       // wall seconds
#include <concepts>     // convertible_to, same_as
#include <cstdint>      // int64_t
#include <exception>    // current_exception
#include <memory>       // unique_ptr: smaller worlds
#include <optional>     // a rank's training
#include <string>       // names
#include <type_traits>  // remove_cvref_t
#include <utility>      // move
#include <vector>       // options

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
#include <gx/trainer/run.hpp>            // Run, start_run
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
///         A member of Options that there is not is 'no matching function' to the compiler; written
///         as `T::Options o; o.batch = 32;`, it names the member.
/// Order:  equal options, data and rank count give equal bits in every world of the same device,
///         unless Options::deterministic is false and the device has kernels to which it matters.
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
        if constexpr (TrainingWorld<W>) {
            static_assert(explain_memory<typename W::Rank, typename W::Rank::Device>());
            static_assert(explain_computes<typename W::Rank::Device, typename C::compute_type>());
        }
        if constexpr (V::continues) {
            static_assert(explain_shrinking_world<W>());
            if constexpr (detail::trainer::RunsAbandoned<typename W::Rank::Device>)
                detail::trainer::expect_checkpoints(V(options_.survival).recovery());
        }
        const auto begin = std::chrono::steady_clock::now();
        Run run = start_or_stop_all(world, data);
        RunRecord record = detail::trainer::record_of(run, described(world));
        record.composition = name();
        record.scheduler = type_name<S>();
        record.optimizer = optimizer_name(options_.optimizer);
        WorldInfo after;
        try {
            if (run.is_over) {
                compare_terms(world, run);
                detail::trainer::restore_record(run, record);
                after = info_of(world);
            } else if constexpr (V::continues) {
                in_each_process(world, [&](auto& here) {
                    run.first_local_rank = first_local_rank(here);
                    after = run_until_done(here, run, record);
                });
            } else {
                NoOptions carries;
                run_in(world, run, record, [&](int) -> NoOptions& { return carries; });
                run.gate->expect_not_stopped(is_root(world));
                detail::trainer::expect_whole(record, options_.epochs);
                after = info_of(world);
            }
        } catch (...) {
            detail::trainer::fail(run, std::current_exception());
            throw;
        }
        detail::trainer::summarise(record, after, run);
        record.wall_seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        run.watchers->run_ended(record);
        return record;
    }
    /// Compile-time error: the world comes first.
    template <class Data, class W>
        requires std::same_as<Data, Split> || std::same_as<Data, Sources>
    RunRecord train(const Data&, W&) const {
        static_assert(!sizeof(W),
                      "gx: train(data, world): the world comes first. Fix: train(world, data).");
        return {};
    }
    /// Compile-time error: a run takes two sources.
    template <class W, Source D>
    RunRecord train(W&, const D&) const {
        static_assert(!sizeof(W),
                      "gx: train(world, data): one source where two belong: images to train on and "
                      "images to test on. Fix: 'train(world, Sources{images, tests})', or "
                      "'Sources{images}' with the option '.evaluate = false'.");
        return {};
    }
    /// Compile-time error: what is given is no source.
    template <class W, class D>
        requires(!Source<D> && !std::convertible_to<const D&, const Sources&> &&
                 !std::convertible_to<const D&, const Split&> && !std::same_as<W, Split> &&
                 !std::same_as<W, Sources>)
    RunRecord train(W&, const D&) const {
        static_assert(!sizeof(W),
                      "gx: train(world, data): this is no data to train on. Fix: give a Split in "
                      "memory, or 'Sources{images, tests}' of sources; files of encoded images "
                      "become one by 'Decoded(ImageFolder(path), RecipeDecoder(recipe))'.");
        return {};
    }

private:
    using Run = detail::trainer::Run;

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

    /// What the code that all compositions share asks of this one; it refers to the options.
    GX_COLD [[nodiscard]] detail::trainer::RunComposition composition() const {
        return {.name = learning_name({}),
                .reducer = reducer_name<R>(),
                .loader = type_name<L>(),
                .model = M::name,
                .wire = R::wire_type::name,
                .graph = &gx::graph<M>,
                .trouble = &gx::trouble<M>,
                .schedule =
                    [this](const Plan& plan) {
                        return detail::trainer::schedule_of<S>(options_.scheduler, plan);
                    },
                .check_policies = [this](Problems& problems,
                                         int ranks) { check_policies(problems, ranks); },
                .choices = choices(),
                .compute = stored_element<typename C::compute_type>,
                .tf32 = std::same_as<typename C::compute_type, tf32>,
                .weights = options_.weights,
                .loads_any_source = detail::trainer::LoadsASource<L>,
                .updates_apart = gx::updates_apart<R>,
                .survives = V::continues,
                .goes_back = goes_back()};
    }
    [[nodiscard]] bool goes_back() const {
        if constexpr (V::continues) return V(options_.survival).recovery() == Recovery::checkpoint;
        else return false;
    }
    /// Adds what is wrong with the options of policies, but the Scheduler's.
    GX_COLD void check_policies(Problems& problems, [[maybe_unused]] int ranks) const {
        const auto add = [&](const auto& findings) {
            for (const auto sentence : findings) problems.add(std::string(sentence));
        };
        if constexpr (requires { R::check(options_.reducer); }) add(R::check(options_.reducer));
        if constexpr (requires { O::check(options_.optimizer); }) add(O::check(options_.optimizer));
        if constexpr (requires { Scale::check(options_.loss_scale); })
            add(Scale::check(options_.loss_scale));
        if constexpr (requires { V::check(problems, options_.survival, ranks, true); })
            V::check(problems, options_.survival, ranks, !options_.output.empty());
        if constexpr (V::continues && OwnsUpdate<R>)
            detail::trainer::check_owner_recovers(problems, V(options_.survival).recovery(),
                                                  reducer_name<R>());
    }
    /// The options that change the trajectory, as given: those of the policies before they are
    /// completed from the plan.
    GX_COLD [[nodiscard]] std::vector<Checkpoint::Option> choices() const {
        using detail::trainer::add_options;
        std::vector<Checkpoint::Option> out;
        add_options(out, "epochs", options_.epochs);
        add_options(out, "phases", options_.phases);
        if (options_.micro_batches != 1)  // earlier checkpoints know no other
            add_options(out, "micro_batches", options_.micro_batches);
        add_options(out, "label_smoothing", options_.label_smoothing);
        if (!options_.deterministic) add_options(out, "deterministic", options_.deterministic);
        add_options(out, "reducer", options_.reducer);
        add_options(out, "scheduler", options_.scheduler);
        add_options(out, "optimizer", options_.optimizer);
        add_options(out, "loss_scale", options_.loss_scale);
        return out;
    }
    GX_COLD [[nodiscard]] detail::trainer::RunOptions plain(bool writes) const {
        const Options& o = options_;
        return {.batch = o.batch,
                .epochs = o.epochs,
                .micro_batches = o.micro_batches,
                .phases = o.phases,
                .pixels = o.pixels,
                .seed = o.seed,
                .label_smoothing = o.label_smoothing,
                .deterministic = o.deterministic,
                .output = o.output,
                .resume = o.resume,
                .evaluate = o.evaluate,
                .trace_steps = o.trace_steps,
                .checkpoints = o.checkpoints,
                .stop = o.stop,
                .observers = o.observers,
                .progress = o.progress,
                .most_skips = o.most_skips,
                .writes = writes};
    }
    /// What a run starts from. Where other processes wait for this one, an error stops them too.
    template <class W>
    GX_COLD [[nodiscard]] Run start_or_stop_all(W& world, const Sources& data) const {
        try {
            return detail::trainer::start_run(composition(), plain(is_root(world)), data,
                                              described(world));
        } catch (...) {
            if constexpr (SpansProcesses<W>)
                world.run(
                    [error = std::current_exception()](auto&) { std::rethrow_exception(error); });
            throw;
        }
    }

    /// Of a run that is over for this process: it may not be for another.
    template <class W>
    GX_COLD static void compare_terms(W& world, const Run& run) {
        if constexpr (ComparesTerms<typename W::Rank>)
            world.run(
                [&](auto& rank) { rank.compare(detail::trainer::terms_of(run, rank.ranks())); });
    }
    /// Runs one world. `carries(rank)`: what the survival keeps of that rank.
    template <class W>
    void run_in(W& world, Run& run, RunRecord& record, auto carries) const {
        TraceSink sink{.recording = false};
        constexpr bool traces = requires { world.trace_to(&sink); };
        if constexpr (traces) {
            world.trace_to(&sink);
            run.trace = &sink;
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
                if constexpr (ComparesTerms<Rank>)
                    rank.compare(detail::trainer::terms_of(run, rank.ranks()));
                RunRecord other;  // one rank of a process fills its record
                using Training = detail::trainer::RankTraining<R, O, L, Scale, V, Rank>;
                const detail::trainer::PolicyOptions<R, O, Scale> policies{
                    options_.reducer, options_.optimizer, options_.loss_scale};
                auto& carried = carries(rank.rank());
                std::optional<Training> training;
                detail::trainer::with_memory(
                    rank.rank(), [&]() -> auto& { return Training::first_phase(run, carried); },
                    [&] {
                        training.emplace(run, policies, rank,
                                         rank.rank() == run.first_local_rank ? record : other,
                                         carried);
                    });
                training->run();
            });
        } catch (...) {
            end_trace();
            throw;
        }
        end_trace();
    }

    /// Runs `first`, and smaller worlds until one has done all epochs; returns the last one's info.
    template <class W>
    GX_COLD WorldInfo run_until_done(W& first, Run& run, RunRecord& record) const {
        const V survival(options_.survival);
        int number = 0;  // of the present world
        const int begun = run.resume ? run.resume->epoch : 0;
        detail::trainer::Worlds<R> worlds(first.ranks(), run.resume ? run.resume->step : 0);
        std::unique_ptr<gx::detail::world::Smaller<W>> next;
        const auto present = [&](auto f) { return next ? f(*next) : f(first); };
        for (;;) {
            const std::size_t known = record.losses.size();
            const std::exception_ptr error =
                present([&](auto& w) { return lost_in(w, run, record, worlds); });
            WorldInfo info = present([](auto& w) { return info_of(w); });
            worlds.end(info.event_hash);
            if (!error && std::ssize(record.epochs) == options_.epochs) {
                info.event_hash = worlds.event_hash();
                for (const LossRow& row : record.losses)
                    record.notes.push_back(detail::trainer::note_of(row));
                return info;
            }
            // What the root has written. Other processes may have done an epoch more or less when
            // they were stopped.
            detail::trainer::Written written{
                int(std::ssize(record.epochs)),
                detail::trainer::newest_whole(run, worlds.carried(0).written, record)};
            auto left = present([&](auto& w) {
                if constexpr (!SpansProcesses<W>)
                    return w.survivors(worlds.lost(), survival.restart_time());
                else return w.survivors(worlds.lost(), survival.restart_time(), written.number());
            });
            if constexpr (SpansProcesses<W>) written = written.from(left.number);
            const auto ranks = std::ssize(left.members);
            if (ranks == 0 || ranks == std::ssize(worlds.now())) {
                if (error) std::rethrow_exception(error);
                detail::trainer::expect_whole(record, options_.epochs);
            }
            LossRow loss{.world = ++number,
                         .ranks = int(ranks),
                         .lost = worlds.shrink(left.members),
                         .error = detail::trainer::first_sentence(error)};
            if (record.losses.size() == known) detail::trainer::add_earlier(loss, run.loss);
            run.loss = std::move(loss);
            if (ranks < survival.fewest_ranks())
                detail::trainer::throw_too_few(run.loss, survival.fewest_ranks(), run.loss.error);
            next = std::move(left.world);
            detail::trainer::plan_for_survivors(run, described(*next), survival.restart_time());
            if (survival.recovery() != Recovery::checkpoint) continue;
            worlds.forget();
            detail::trainer::go_back(run, worlds, begun, written, record);
        }
    }
    /// Runs one world; returns the error of a loss that it ends with.
    template <class W>
    [[nodiscard]] std::exception_ptr lost_in(W& world, Run& run, RunRecord& record,
                                             detail::trainer::Worlds<R>& worlds) const {
        worlds.begin();
        try {
            run_in(world, run, record, [&](int rank) -> auto& { return worlds.carried(rank); });
        } catch (const LostRank&) {
            return std::current_exception();
        } catch (const DeviceLost&) {
            return std::current_exception();
        }
        return nullptr;
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
    [[nodiscard]] static detail::trainer::RunWorld described(const W& world) {
        using Rank = typename W::Rank;
        return {.info = info_of(world),
                .device = type_name<typename Rank::Device>(),
                .ranks = world.ranks(),
                .first_local_rank = first_local_rank(world),
                .takes_pixels = TakesPixels<typename Rank::Device>,
                .takes_second_labels = TakesSecondLabels<typename Rank::Device>,
                .compares_data = SpansProcesses<W> && !ComparesTerms<Rank>,
                .in_one_process = !SpansProcesses<W> && !ComparesTerms<Rank>};
    }

    Options options_{};
};

}  // namespace gx
