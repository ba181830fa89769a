// Trainer<Model, Reducer, Scheduler, ...>: the one place that sees every role.
#pragma once

#include <chrono>      // wall seconds
#include <concepts>    // same_as
#include <filesystem>  // output folder
#include <limits>      // largest batch
#include <optional>    // resumed checkpoint
#include <string>      // names
#include <utility>     // move

#include <gx/core/account.hpp>           // Account
#include <gx/core/cold.hpp>              // GX_COLD
#include <gx/core/element.hpp>           // fp16
#include <gx/core/problems.hpp>          // Problems
#include <gx/core/type_name.hpp>         // type_name
#include <gx/core/world.hpp>             // TrainingWorld
#include <gx/loader/in_memory.hpp>       // InMemory
#include <gx/model/concept.hpp>          // graph<M>()
#include <gx/optimizer/sgd.hpp>          // Sgd
#include <gx/reducer/name.hpp>           // reducer_name
#include <gx/scheduler/poly.hpp>         // Poly
#include <gx/scheduler/warmup.hpp>       // Warmup
#include <gx/trainer/loss_scale.hpp>     // LossScale
#include <gx/trainer/options.hpp>        // TrainerOptions
#include <gx/trainer/rank_training.hpp>  // one rank's work
#include <gx/trainer/record.hpp>         // RunRecord

namespace gx {

namespace detail::trainer {

template <class R>
struct DefaultLossScale {  // fp16 on the wire underflows and overflows; other wires do neither
    using type = StaticLossScale;
};
template <class R>
    requires std::same_as<typename R::wire_type, fp16>
struct DefaultLossScale<R> {
    using type = DynamicLossScale;
};

template <class L>
concept LoadsADataset = Loader<L> && std::constructible_from<L, const Dataset&, LoaderOptions>;

template <class L>
consteval bool explain_trainer_loader() {
    static_assert(explain_loader<L>());
    static_assert(
        LoadsADataset<L>,
        "gx: this Loader can't be built from a data set and a rank's share of it. A Trainer "
        "makes one for each rank. Fix: add a constructor from 'const gx::Dataset&' and "
        "'gx::LoaderOptions', or use gx::InMemory<...>.");
    return true;
}

}  // namespace detail::trainer

/// Trains one network on any world.
///
///     Trainer<ResNet50, MultiRing<4, fp16>, Warmup<Poly<2>>> trainer({.batch = 32, .epochs = 90});
///     RunRecord record = trainer.train(world, data);
///
/// Every rank computes the gradient of its share of a step, the Reducer averages, every rank makes
/// the same update. Updates are counted by gradients: update u applies the mean of gradient u with
/// rate(u); a Reducer with staleness s makes it s steps late, and the last s follow the last step.
///
/// Errors: train() throws one gx::Error that lists every option that is wrong before it starts;
///         while it runs, one that names rank, step, bucket or layer, and operation. Files are
///         whole or absent.
/// Order:  equal options, data and rank count give equal bits in every world of the same device.
template <class M, class R, class S = Warmup<Poly<2>>, class O = Sgd, class L = InMemory<>,
          class Scale = typename detail::trainer::DefaultLossScale<R>::type>
class Trainer {
    static_assert(explain_model<M>());
    static_assert(explain_reducer<R>());
    static_assert(explain_scheduler<S>());
    static_assert(explain_optimizer<O>());
    static_assert(detail::trainer::explain_trainer_loader<L>());
    static_assert(explain_loss_scale<Scale>());

public:
    using Options =
        TrainerOptions<typename S::Options, typename O::Options, typename Scale::Options>;

    Trainer() = default;
    explicit Trainer(Options options) : options_(std::move(options)) {}

    [[nodiscard]] const Options& options() const { return options_; }
    /// As a program spells it, defaults left out.
    GX_COLD [[nodiscard]] static std::string name() {
        return "Trainer<" + std::string(M::name) + ", " + reducer_name<R>() + ", " +
               type_name<S>() + ">";
    }

    /// Trains on `data.train`, tests on `data.test` after each epoch, and answers what it found.
    template <class W>
    RunRecord train(W& world, const Split& data) const {
        static_assert(explain_training_world<W>());
        const auto begin = std::chrono::steady_clock::now();
        Options options = options_;
        const Plan plan = check(options, data, world.ranks());
        const Graph graph = gx::graph<M>({.input = data.train.shape, .classes = data.train.classes,
                                          .label_smoothing = options.label_smoothing});
        std::optional<Checkpoint> resume;
        if (!options.resume.empty()) resume = resumed(options, graph);

        RunRecord record = describe(world, options);
        const Account before = account(world);
        const double timed =
            before.timed_batch > 0 ? double(before.timed_batch) / options.batch : 1.0;
        TraceSink sink{.recording = false};
        constexpr bool traces = requires { world.trace_to(&sink); };
        if constexpr (traces) world.trace_to(&sink);
        const detail::trainer::Job<Options> job{options,
                                                graph,
                                                data,
                                                plan,
                                                resume ? &*resume : nullptr,
                                                timed,
                                                traces ? &sink : nullptr};
        world.run([&](auto& rank) {
            using Rank = std::remove_cvref_t<decltype(rank)>;
            RunRecord other;  // ranks but the first keep their books for themselves
            detail::trainer::RankTraining<R, S, O, L, Scale, Options, Rank>(
                job, rank, rank.rank() == 0 ? record : other).run();
        });
        if constexpr (traces) {
            world.trace_to(nullptr);
            record.spans = std::move(sink.spans);
            record.link_rates = std::move(sink.rates);
        }
        summarise(record, account(world), data.train.count() * options.epochs, timed);
        record.wall_seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        return record;
    }

private:
    /// Fills what the plan decides; throws one error that lists everything wrong.
    GX_COLD [[nodiscard]] static Plan check(Options& o, const Split& data, int ranks) {
        Problems problems;
        const std::int64_t images = data.train.count();
        problems.check(o.epochs > 0, fmt::format("epochs is {}: train for at least 1", o.epochs));
        problems.check(
            o.label_smoothing >= 0 && o.label_smoothing < 1,
            fmt::format("label_smoothing is {}: it is at least 0 and below 1", o.label_smoothing));
        problems.check(o.trace_steps >= 0,
                       fmt::format("trace_steps is {}: keep 0 steps or more", o.trace_steps));
        problems.check(images >= ranks,
                       fmt::format("there are {} ranks and {} training images: use at most as many "
                                   "ranks as images", ranks, images));
        problems.check(!o.evaluate || data.test.count() >= ranks,
                       fmt::format("there are {} ranks and {} test images: give a test set, or set "
                                   "evaluate to false", ranks, data.test.count()));
        problems.check(
            !o.evaluate || data.test.count() == 0 ||
                (data.test.shape == data.train.shape && data.test.classes == data.train.classes),
            "the test set has other images or classes than the training set: take both from one "
            "data set");
        problems.check(data.train.classes >= 2,
                       fmt::format("the training set has {} classes: a classifier needs at least 2",
                                   data.train.classes));
        problems.check(
            fits<M>(data.train.shape),
            fmt::format("images of {} x {} x {} are smaller than the stride of {}: use larger "
                        "images or a network with fewer stages",
                        data.train.shape.channels, data.train.shape.height, data.train.shape.width,
                        M::name));
        Plan plan{.ranks = ranks};
        const bool batches =
            problems.check(o.batch > 0 && o.batch <= std::numeric_limits<int>::max() / ranks,
                           fmt::format("batch is {}: a rank needs at least 1 image a step, and a "
                                       "step of all ranks at most {}",
                                       o.batch, std::numeric_limits<int>::max()));
        plan.global_batch = (batches ? o.batch : 1) * ranks;  // so that all else is checked too
        plan.steps_per_epoch = (images + plan.global_batch - 1) / plan.global_batch;
        plan.total_steps = plan.steps_per_epoch * std::max(1, o.epochs);
        o.scheduler = complete_options<S>(o.scheduler, plan);
        for (const auto sentence : check_options<S>(o.scheduler))
            problems.add(std::string(sentence));
        if constexpr (requires { O::check(o.optimizer); })
            for (const auto sentence : O::check(o.optimizer)) problems.add(std::string(sentence));
        if constexpr (requires { Scale::check(o.loss_scale); })
            for (const auto sentence : Scale::check(o.loss_scale))
                problems.add(std::string(sentence));
        check_folder(problems, o.output);
        problems.throw_if_any("gx: this run can't start");
        return plan;
    }
    /// The checkpoint to go on from; throws where the run would not be the one that wrote it.
    GX_COLD [[nodiscard]] static Checkpoint resumed(const Options& o, const Graph& graph) {
        Checkpoint c = read_checkpoint(o.resume, graph);
        Problems problems;
        problems.check(
            c.seed == o.seed,
            fmt::format("it was written with seed {}, and this run has seed {}: set seed "
                        "to {}",
                        c.seed, o.seed, c.seed));
        problems.check(
            c.epoch < o.epochs,
            fmt::format("it has done {} epochs, and this run ends after {}: ask for more "
                        "epochs in all",
                        c.epoch, o.epochs));
        problems.throw_if_any("gx: this run can't go on from '" + o.resume.string() + "'");
        return c;
    }
    GX_COLD static void check_folder(Problems& problems, const std::filesystem::path& folder) {
        if (folder.empty()) return;
        problems.collect([&] {
            std::error_code error;
            std::filesystem::create_directories(folder, error);
            const auto probe = folder / ".gx-probe";
            try {
                if (error) throw Error(error.message() + ".");
                write_file(probe, "");
            } catch (const Error& e) {
                throw Error("output folder '" + folder.string() + "' can't be written: " +
                            e.what() + " Choose another folder with 'output'.");
            }
            std::filesystem::remove(probe, error);
        });
    }

    template <class W>
    [[nodiscard]] static Account account(const W& world) {
        if constexpr (requires {
                          { world.account() } -> std::same_as<Account>;
                      })
            return world.account();
        else return {.world = type_name<W>()};
    }
    template <class W>
    [[nodiscard]] static RunRecord describe(const W& world, const Options& o) {
        const Account a = account(world);
        RunRecord r{.composition = name(),
                    .model = std::string(M::name),
                    .reducer = reducer_name<R>(),
                    .scheduler = type_name<S>(),
                    .optimizer = type_name<O>(),
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
    GX_COLD static void summarise(RunRecord& r, const Account& a, std::int64_t images,
                                  double timed) {
        r.images = static_cast<std::int64_t>(double(images) * timed + 0.5);
        if (r.seconds > 0) {
            r.images_per_second = double(r.images) / r.seconds;
            r.scaling_efficiency_pct = 100 * r.breakdown.compute / r.seconds;
            r.exposed_communication_pct = 100 * r.breakdown.exposed_communication / r.seconds;
        }
        r.dollars = (a.price * nanoseconds(r.seconds)).count;
        r.event_hash = a.event_hash;
    }

    Options options_{};
};

}  // namespace gx
