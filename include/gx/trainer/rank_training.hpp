// RankTraining: the training loop of one rank; plain blocking code, the same in every world.
#pragma once

#include <cmath>       // llround
#include <concepts>    // same_as
#include <filesystem>  // checkpoints
#include <limits>      // NaN
#include <memory>      // unique_ptr
#include <optional>    // the test set
#include <string>      // sentences
#include <utility>     // move
#include <vector>      // flat vectors

#include <gx/core/cold.hpp>              // GX_COLD
#include <gx/core/error.hpp>             // Error, LostRank, Delivery
#include <gx/core/hash_bits.hpp>         // hash_bits
#include <gx/core/units.hpp>             // Nanoseconds, DollarsPerHour
#include <gx/core/world.hpp>             // RankContext
#include <gx/loader/dataset.hpp>         // Split
#include <gx/loader/in_memory.hpp>       // InMemory: the test set
#include <gx/model/graph.hpp>            // Graph
#include <gx/model/init.hpp>             // initial_parameters
#include <gx/memory/buffer.hpp>          // Buffer
#include <gx/memory/queue.hpp>           // launch
#include <gx/optimizer/update_args.hpp>  // UpdateArgs
#include <gx/reducer/pipeline.hpp>       // Pipeline
#include <gx/reflect/options_of.hpp>     // NoOptions
#include <gx/scheduler/concept.hpp>      // Plan
#include <gx/trainer/carried.hpp>        // Carried, Course
#include <gx/trainer/checkpoint.hpp>     // Checkpoint
#include <gx/trainer/control.hpp>        // sum_over_ranks, agree
#include <gx/trainer/decisions.hpp>      // Decisions, BeginStep, Decide, Update
#include <gx/trainer/progress.hpp>       // Progress
#include <gx/trainer/rank_state.hpp>     // RankState
#include <gx/trainer/record.hpp>         // RunRecord
#include <gx/trainer/setup.hpp>          // restore_rows, errors
#include <gx/trainer/step_slots.hpp>     // StepSlots, get, put
#include <gx/trainer/update_share.hpp>   // UpdateShare

namespace gx::detail::trainer {

using gx::hash_bits;

/// What all ranks of a run share and none changes.
template <class Options>
struct Job {
    const Options& options;
    const Graph& graph;
    const Split& data;
    Plan plan;
    const Checkpoint* resume = nullptr;  ///< nullptr: start anew
    Plan plan_before{};  ///< that `resume` was written under, over this run's epochs
    decltype(Options::scheduler) scheduler_before{};  ///< complete options for it
    std::string rescaled{};  ///< what changes with another rank count or batch; a sentence
    std::vector<std::string> changes{};         ///< all that this resume changes, as `rescaled`
    std::vector<std::string> notes{};           ///< of all resumes, this one included
    std::vector<Checkpoint::Option> choices{};  ///< the options that change the trajectory
    bool mixed_clocks = false;                  ///< an earlier part was measured by another clock
    DollarsPerHour price{};                     ///< of the world
    double timed_images = 1;                    ///< images on the clock for each one trained
    TraceSink* trace = nullptr;                 ///< of the world, where it has one
    int first_local_rank = 0;                   ///< it fills this process's record
    std::string composition{};                  ///< that a checkpoint must fit
    std::filesystem::path resumed_from{};       ///< file of `resume`
    LossRow loss{};              ///< that has led to this world; its `ranks` 0: it is the first
    Nanoseconds restart_time{};  ///< that passed before it
};

/// One rank of one world. With a Survival that continues, it brings a Carried from the world before
/// and takes it to the next.
template <class R, class S, class O, class L, class Scale, class Survival, class Options,
          class Rank>
class RankTraining {
    using Device = typename Rank::Device;
    using M = memory_of<Device>;
    static constexpr bool on_host = std::same_as<M, HostMemory>;
    using D = Decisions<Scale>;
    using Slots = StepSlots<D, std::size_t(R::staleness) + 1, M>;
    using Share = UpdateShare<R, O>;
    static constexpr bool survives = Survival::continues;
    static_assert(on_host || !survives,
                  "gx: ContinueOnSurvivors needs gradients in the host's memory, and this World "
                  "has them on devices. Fix: leave it out; a run is resumed from a checkpoint.");

public:
    using Carries = std::conditional_t<survives, Carried<R>, NoOptions>;

    GX_COLD RankTraining(const Job<Options>& job, Rank& rank, RunRecord& record, Carries& carried)
        : carried_(carried),
          job_(job),
          o_(job.options),
          rank_(rank),
          record_(record),
          device_(rank.make_device(job.graph, {.batch = o_.batch,
                                               .seed = o_.seed,
                                               .rank = rank.rank(),
                                               .update = Share::cost(rank.ranks())})),
          elements_(device_->parameters().size()),
          loader_(job.data.train, share(true)),
          scheduler_(o_.scheduler),
          optimizer_(o_.optimizer),
          vectors_(memory(), std::int64_t(Share::in_parts ? 0 : state_vectors<O>() * elements_),
                   "optimizer state"),
          slots_(memory(), D{Scale(o_.loss_scale)}),
          pipeline_({.placement = rank.transport().placement(),
                     .elements = std::int64_t(elements_),
                     .bucket_elements = bucket_elements(),
                     .seed = o_.seed,
                     .slices = device_->slices(),
                     .memory = memory()},
                    o_.reducer),
          progress_("training", job.plan.total_steps, "steps",
                    rank.rank() == 0 ? o_.progress : Progress::Style::silent) {
        if constexpr (OwnsUpdate<R>) own_update();
        else optimizer_.reserve(elements_, device_->slices(), job.graph);
        if (o_.evaluate) test_loader_.emplace(job.data.test, share(false));
        if (!o_.output.empty()) reserved_state_ = state_shapes();
    }

    RankTraining(const RankTraining&) = delete;
    RankTraining& operator=(const RankTraining&) = delete;
    ~RankTraining() {  // queued work uses what is released here
        if constexpr (!on_host) (void)queue().wait(queue().record());
    }

    void run() {
        if constexpr (survives) return run_or_leave();
        start();
        train();
    }

private:
    /// Of the device; nullptr: of the host.
    [[nodiscard]] MemoryResource* memory() {
        if constexpr (on_host) return nullptr;
        else return &rank_.memory();
    }
    /// Where kernels on the device's memory are queued.
    [[nodiscard]] decltype(auto) queue() {
        if constexpr (on_host) return HostQueue{};
        else return device_->queue();
    }
    [[nodiscard]] bool fills_record() const { return rank_.rank() == job_.first_local_rank; }
    GX_COLD [[nodiscard]] LoaderOptions share(bool train) const {
        return {.batch = o_.batch,
                .ranks = rank_.ranks(),
                .rank = rank_.rank(),
                .seed = o_.seed,
                .shuffle = train};
    }
    /// Buckets are meant in bytes of the timed model, where the clock is charged for another one.
    GX_COLD [[nodiscard]] std::int64_t bucket_elements() const {
        if constexpr (requires { R::bucket_elements; } && requires { device_->wire_scale(); })
            if (R::bucket_elements > 0)
                return std::max(
                    std::int64_t{1},
                    static_cast<std::int64_t>(double(R::bucket_elements) / device_->wire_scale()));
        return 0;  // what R asks for, or the whole gradient
    }

    // ---- Starting ------------------------------------------------------------------------
    void start() {
        if (job_.resume) restore(*job_.resume);
        else initialise();
    }
    void train() {
        for (int epoch = first_epoch_; epoch < o_.epochs; ++epoch) {
            train_epoch(epoch);
            finish_epoch(epoch);
        }
    }
    [[nodiscard]] auto state() {
        return RankState{job_.graph, *device_, optimizer_, pipeline_,
                         share_.state(vectors_.template view<M>())};
    }
    GX_COLD void initialise() {
        std::vector<float> canonical(std::size_t(job_.graph.parameter_elements()));
        initial_parameters(job_.graph, o_.seed, canonical);
        state().load(canonical);
        std::vector<float> statistics(device_->statistics().size());
        initial_statistics(job_.graph, statistics);
        put(queue(), statistics, device_->statistics());
        slots_.put(queue(), D{Scale(o_.loss_scale)}, {});
    }
    GX_COLD void restore(const Checkpoint& c) {
        D decisions{Scale(o_.loss_scale)};
        typename Slots::Scales scales{};
        share_.begin_restore();
        state().restore(c, rank_.rank(), job_.resumed_from.string(), decisions, scales);
        share_.end_restore(vectors_.template view<M>());
        slots_.put(queue(), decisions, scales);
        first_epoch_ = c.epoch;
        world_step_ = c.world_step;
        step_ = resumed_at_ = c.step;
        const std::int64_t steps = loader_.steps_per_epoch();
        shift_ = c.step - c.epoch * steps;
        steps_before_ =
            c.epoch * (job_.rescaled.empty() ? steps : job_.plan_before.steps_per_epoch);
        scheduler_before_.emplace(job_.scheduler_before);
        progress_.resume_from(step_ - shift_);
        for (const std::string& change : job_.changes) progress_.note(change);
        timed_images_ = c.timed_images;
        if (!job_.mixed_clocks) {
            seconds_ = seconds_before_ = c.seconds;
            undisturbed_seconds_ = c.undisturbed_seconds;
            dollars_before_ = c.dollars;
        }
        if (!fills_record()) return;
        if (std::ssize(record_.epochs) != c.epoch) restore_rows(record_, c, job_.resumed_from);
        if (!job_.mixed_clocks) breakdown_ = record_.breakdown;
        skipped_before_ = record_.skipped_steps;
    }

    /// Learning rate of a gradient: by progress in the data. A gradient that is older than the
    /// checkpoint has the rate of the plan it was computed under.
    [[nodiscard]] float rate(std::int64_t gradient) const {
        if (gradient >= resumed_at_) return scheduler_.rate(schedule_step(gradient));
        return scheduler_before_->rate(
            std::max(std::int64_t{0}, steps_before_ - (resumed_at_ - gradient)));
    }

    [[nodiscard]] std::int64_t schedule_step(std::int64_t step) const {
        if constexpr (survives) return carried_.course.schedule_step(step);
        else return step - shift_;
    }

    // ---- One step ------------------------------------------------------------------------
    struct StepsOfEpoch {
        std::int64_t first, end;  ///< those before were made in an earlier world
    };
    [[nodiscard]] StepsOfEpoch begin_epoch(int epoch) {
        loader_.begin_epoch(epoch);
        const std::int64_t steps = loader_.steps_per_epoch();
        sums_.assign(3 * std::size_t(steps), 0.0);
        rows_.clear();
        epoch_begin_seconds_ = seconds_;
        return {0, steps};
    }
    void train_epoch(int epoch) {
        const auto [first, steps] = begin(epoch);
        for (std::int64_t s = first; s < steps; ++s) {
            trace(epoch == 0 && s >= steps - o_.trace_steps);
            if constexpr (survives) accounted_ = rank_.now();
            train_step(s);
            if (progress_.silent()) continue;
            // On a device the last step's loss is not known yet.
            const auto* sums =
                &sums_[3 * std::size_t(on_host ? s : std::max<std::int64_t>(0, s - 1))];
            progress_.update(schedule_step(step_),
                             progress_words(epoch, o_.epochs, sums[0] / std::max(1.0, sums[2])));
        }
        trace(false);
        const Nanoseconds begin = rank_.now();
        if constexpr (survives) accounted_ = begin;
        if (epoch + 1 == o_.epochs)
            while (const auto late = pipeline_.drain()) {
                apply(*late);
                record_outcome(-1, true);
            }
        else settle();
        while (!slots_.empty()) read_outcome();
        account(breakdown_.exposed_communication, begin, "WAIT_FOR_ALLREDUCE");
        seconds_ += seconds(rank_.now() - begin);
    }

    void train_step(std::int64_t step_of_epoch) {
        const Nanoseconds begin = rank_.now();
        const RankBatch next = loader_.next();
        const Nanoseconds loaded = account(breakdown_.input, begin, "INPUT");

        const auto index = std::uint64_t(step_);
        launch(queue(), BeginStep<D>{float(rank_.ranks()), float(next.global_count)},
               slots_.decisions(), slots_.scale_view(index));
        const auto gradients = pipeline_.begin(index, slots_.scale_of(index));
        if constexpr (on_host) {
            slots_.report() = device_->forward(next.batch, Mode::train);
            if (!slots_.report().finite) stop_at_bad_loss(step_);
        } else {
            device_->forward(next.batch, Mode::train, slots_.report_view());
        }
        const Nanoseconds forward = account(breakdown_.compute, loaded, "FORWARD");

        if constexpr (on_host) {
            device_->backward(slots_.factor(), gradients, [&](std::size_t watermark) {
                pipeline_.ready(rank_.stream(), rank_.transport(), watermark);
            });
            pipeline_.ready(rank_.stream(), rank_.transport(), 0);
        } else {
            device_->backward(slots_.factor(), gradients, [&](std::size_t watermark, Event final) {
                pipeline_.ready(rank_.transport(), watermark, final);
            });
            pipeline_.ready(rank_.transport(), 0, device_->queue().record());
        }
        const Nanoseconds backward = account(breakdown_.compute, forward, "BACKWARD");

        rows_.push_back({.step = step_});
        if constexpr (survives) keep_step(next.batch.count, step_of_epoch);
        const auto reduced = pipeline_.collect(index);
        const Nanoseconds waited =
            account(breakdown_.exposed_communication, backward, "WAIT_FOR_ALLREDUCE");
        if (reduced) {
            rows_.back().rate = rate(std::int64_t(reduced->index));
            mark_ = waited;
            apply(*reduced);
            if constexpr (!OwnsUpdate<R>) account(breakdown_.compute, waited, "UPDATE");
        }
        seconds_ += seconds(rank_.now() - begin);
        rows_.back().seconds = over_all_parts(seconds_);
        sums_[3 * std::size_t(step_of_epoch) + 2] = next.batch.count;
        images_ += next.batch.count;
        images_of_all_ += next.global_count;
        if constexpr (requires { device_->undisturbed_pass(next.batch.count); })
            undisturbed_seconds_ += seconds(device_->undisturbed_pass(next.batch.count));
        record_outcome(step_of_epoch, reduced.has_value());
        ++step_;
    }

    /// Queues the outcome of a step for the host; it reads those before, as far as it must.
    void record_outcome(std::int64_t step_of_epoch, bool collected) {
        if (slots_.full()) read_outcome();
        slots_.record_outcome(queue(), {step_of_epoch, step_, collected});
        if constexpr (on_host) read_outcome();
    }
    /// Reads the oldest outcome.
    void read_outcome() {
        const auto [of, outcome, delivery] = slots_.read_outcome(queue());
        expect(delivery, of.step, "all-reduce");
        if (of.step_of_epoch >= 0) {
            if (!outcome.report.finite) stop_at_bad_loss(of.step);
            auto* sums = &sums_[3 * std::size_t(of.step_of_epoch)];
            sums[0] = outcome.report.loss_sum;
            sums[1] = double(outcome.report.correct);
            StepRow& row = rows_[std::size_t(of.step_of_epoch)];
            row.loss_scale = outcome.scale_of_step;
            row.skipped = of.collected && !outcome.applied;
        }
        updates_ = outcome.updates;
        skipped_ = outcome.skipped;
        if (outcome.floor && outcome.skips_in_a_row >= o_.most_skips)
            throw_skips(rank_.rank(), of.step, outcome.skips_in_a_row, outcome.loss_scale,
                        R::wire_type::name, reducer_name<R>());
    }

    /// Queues update number `index` with its averaged gradient, unless it overflowed. All ranks
    /// hold the same bits, so they decide alike.
    void apply(const ReducedIn<M>& reduced) {
        if (!reduced.report.complete()) stop_at_lost_rank(reduced);
        bytes_sent_ = on_the_wire(reduced.report.bytes_sent);
        if constexpr (OwnsUpdate<R>) return apply_owned(reduced);
        const ViewIn<const float, M> mean = reduced.values;
        if constexpr (!on_host) device_->queue().wait_for(reduced.reduced);
        launch(queue(), Decide<D>{}, mean, slots_.decisions(), slots_.applied_view(reduced.index));
        if constexpr (survives)
            carried_.settled(std::int64_t(reduced.index), slots_.decisions()[0].applied);
        if constexpr (on_host) {
            if (!slots_.decisions()[0].applied) return pipeline_.skip();
        } else {
            pipeline_.settle(rank_.transport(), {slots_.applied_view(reduced.index)},
                             device_->queue().record());
        }
        const Update<O, D> update{&optimizer_, device_->slices().data(), device_->slices().size(),
                                  rate(std::int64_t(reduced.index))};
        device_->update([&](ViewIn<float, M> parameters) {
            launch(queue(), update, parameters, mean, slots_.scale_of(reduced.index),
                   vectors_.template view<M>(), slots_.decisions());
        });
        if constexpr (requires { device_->undisturbed_update(); })
            undisturbed_seconds_ += seconds(device_->undisturbed_update());
    }
    /// Bytes that the timed model would send.
    [[nodiscard]] std::int64_t on_the_wire(std::int64_t bytes) const {
        if constexpr (requires { device_->wire_scale(); })
            return std::llround(double(bytes) * device_->wire_scale());
        else return bytes;
    }

    // ---- A reducer that owns the update, in the host's memory ----------------------------
    GX_COLD void own_update() {
        static_assert(!OwnsUpdate<R> || on_host,
                      "gx: a reducer that owns the update works in the host's memory. Fix: use "
                      "another reducer on this device, or another device.");
        share_.reserve(optimizer_, pipeline_.reducer(), rank_.rank(), rank_.ranks(), elements_,
                       device_->slices(), job_.graph);
        if constexpr (Share::in_parts)
            vectors_ = {memory(), std::int64_t(state_vectors<O>() * share_.elements()),
                        "optimizer state of a part"};
        pipeline_.reducer().own_update(rank_.rank(), vectors_.view());
    }
    void apply_owned(const ReducedIn<M>& reduced) {
        D& d = slots_.decisions()[0];
        UpdateArgs update{.gradients = reduced.values,
                          .state = vectors_.view(),
                          .slices = device_->slices(),
                          .rate = rate(std::int64_t(reduced.index)),
                          .unscale = 1.0f / slots_.scale_of(reduced.index),
                          .step = d.updates};
        bool applied = true;
        expect(
            share_.prepare(rank_.transport(), optimizer_, device_->parameters(), update, applied),
            "agreeing on an update");
        mark_ = account(breakdown_.exposed_communication, mark_, "WAIT_FOR_AGREEMENT");
        decide(d, applied);
        slots_.applied_view(reduced.index)[0] = applied;
        if (!applied) pipeline_.skip();
        else
            device_->update([&](std::span<float> parameters) {
                update.parameters = parameters;
                share_.update(optimizer_, update);
            });
        if (applied || Share::counts_skipped) ++d.updates;
        mark_ = account(breakdown_.compute, mark_, "UPDATE");
        const bool last = std::ssize(rows_) == loader_.steps_per_epoch();
        const ReduceReport done =
            share_.updated(pipeline_.reducer(), *device_, rank_.transport(), applied, last);
        expect(done.delivery, "exchanging the parameters");
        bytes_sent_ += on_the_wire(done.bytes_sent);
        mark_ = account(breakdown_.exposed_communication, mark_, "WAIT_FOR_PARAMETERS");
        if constexpr (requires { device_->undisturbed_update(); })
            if (applied) undisturbed_seconds_ += seconds(device_->undisturbed_update());
    }

    void settle() {
        for (const auto& p : pipeline_.pending())
            if (!p.complete)
                throw LostRank({rank_.rank(), std::int64_t(p.index), p.failed_bucket,
                                pipeline_.buckets(), "all-reduce"},
                               p.delivery);
    }
    [[noreturn]] void stop_at_lost_rank(const ReducedIn<M>& reduced) const {
        throw LostRank({rank_.rank(), std::int64_t(reduced.index), reduced.failed_bucket,
                        reduced.buckets, "all-reduce"},
                       reduced.report.delivery);
    }
    [[noreturn]] void stop_at_bad_loss(std::int64_t step) {
        throw_bad_loss(rank_.rank(), step, device_->first_non_finite().value_or("the loss"),
                       rate(step));
    }
    void expect(Delivery d, const char* operation) const { expect(d, step_, operation); }
    void expect(Delivery d, std::int64_t step, const char* operation) const {
        if (d.complete()) return;
        throw LostRank({.rank = rank_.rank(), .step = step, .operation = operation}, d);
    }

    // ---- The end of an epoch -------------------------------------------------------------
    GX_COLD void finish_epoch(int epoch) {
        if constexpr (survives) close_book();
        expect(sum_over_ranks(control_of(rank_), sums_), "summing the metrics");
        average_statistics();
        check_replicas();
        if (epoch + 1 == o_.epochs && updates_ == 0)
            throw_skips(rank_.rank(), step_, 0, slots_.get(queue()).scale.scale(),
                        R::wire_type::name, reducer_name<R>());
        EpochRow row{.epoch = epoch, .step = step_, .seconds = over_all_parts(seconds_)};
        double loss = 0, correct = 0, count = 0;
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            rows_[i].loss = sums_[3 * i] / sums_[3 * i + 2];
            loss += sums_[3 * i];
            correct += sums_[3 * i + 1];
            count += sums_[3 * i + 2];
        }
        row.train_loss = loss / count;
        row.train_accuracy_pct = 100 * correct / count;
        if constexpr (survives) count = double(loader_.images_per_epoch());  // and of lost ranks
        const double images = count * job_.timed_images;
        timed_images_ += images;
        if (seconds_ > epoch_begin_seconds_)
            row.images_per_second = images / (seconds_ - epoch_begin_seconds_);
        if (o_.evaluate) evaluate(row);
        if (!o_.output.empty()) gather_reducer_state();
        if (!o_.output.empty())
            expect(
                share_.gather(control_of(rank_), vectors_.template view<M>(), pipeline_.reducer()),
                "gathering the optimizer's state");
        if (!fills_record()) return;
        close_books();
        record_.steps.insert(record_.steps.end(), rows_.begin(), rows_.end());
        record_.epochs.push_back(row);
        if (!o_.output.empty() && rank_.rank() == 0) save(epoch + 1);
        share_.release();
    }

    /// Each rank saw other images; all go on with the mean, weighted by images of the epoch.
    void average_statistics() {
        std::vector<float> mine = get(queue(), device_->statistics());
        std::vector<double> sums(mine.begin(), mine.end());
        const auto images = double(std::exchange(images_, 0));
        const auto images_of_all = double(std::exchange(images_of_all_, 0));
        if (sums.empty()) return;
        for (double& x : sums) x *= images;
        expect(sum_over_ranks(control_of(rank_), sums), "averaging batch-norm statistics");
        for (std::size_t i = 0; i < sums.size(); ++i) mine[i] = float(sums[i] / images_of_all);
        put(queue(), mine, device_->statistics());
    }
    [[nodiscard]] GX_COLD std::vector<StateShape> state_shapes() {
        return shapes_of(pipeline_.reducer().state(), elements_, reducer_name<R>());
    }
    /// Rank 0 gets the reducer state of every rank, for its checkpoint.
    GX_COLD void gather_reducer_state() {
        reducer_state_.clear();
        settle();  // the state is that behind the gradients in flight
        expect_shapes(reserved_state_, state_shapes(), rank_.rank(), step_, reducer_name<R>());
        for (const StateVector& v : pipeline_.reducer().state()) {
            const std::vector<float> mine = state().kept(v);
            auto& kept =
                reducer_state_.emplace_back(std::string(v.name), v.scope == StateScope::replicated);
            if (kept.replicated) {
                const Agreement a = agree(control_of(rank_), hash_bits(mine));
                expect(a.delivery, "comparing the reducers' states");
                if (a.differs >= 0)
                    throw_states_differ(step_, a.differs, reducer_name<R>(), v.name);
                kept.ranks.push_back(mine);
                continue;
            }
            const bool first = rank_.rank() == 0;
            std::vector<float> all(first ? mine.size() * std::size_t(rank_.ranks()) : 0);
            expect(gather_to_first(control_of(rank_), std::as_bytes(std::span(mine)),
                                   std::as_writable_bytes(std::span(all))),
                   "gathering the reducers' states");
            if (!first) continue;
            for (std::int64_t r = 0; r < rank_.ranks(); ++r) {
                const auto from = all.begin() + r * std::ssize(mine);
                kept.ranks.emplace_back(from, from + std::ssize(mine));
            }
        }
    }
    GX_COLD void check_replicas() {
        weights_hash_ = hash_bits(state().canonical(device_->parameters()));
        const Agreement a = agree(control_of(rank_), weights_hash_);
        expect(a.delivery, "comparing the replicas");
        if (a.differs >= 0) throw_replicas_differ(step_, a.differs);
    }
    void evaluate(EpochRow& row) {
        std::vector<double> sums(3, 0.0);
        test_loader_->begin_epoch(0);
        for (std::int64_t s = 0; s < test_loader_->steps_per_epoch(); ++s) {
            const RankBatch next = test_loader_->next();
            ForwardReport report;
            if constexpr (on_host) {
                report = device_->forward(next.batch, Mode::evaluate);
            } else {
                device_->forward(next.batch, Mode::evaluate, slots_.report_view());
                report = get<ForwardReport>(queue(), slots_.report_view())[0];
            }
            if (!report.finite) stop_at_bad_loss(step_);
            sums[0] += report.loss_sum;
            sums[1] += double(report.correct);
            sums[2] += next.batch.count;
        }
        expect(sum_over_ranks(control_of(rank_), sums), "summing the test results");
        row.test_loss = sums[0] / sums[2];
        row.test_accuracy_pct = 100 * sums[1] / sums[2];
    }
    GX_COLD void save(int epochs_done) {
        Checkpoint c{.model = std::string(job_.graph.name.view()),
                     .composition = job_.composition,
                     .seed = o_.seed,
                     .ranks = rank_.ranks(),
                     .batch = o_.batch,
                     .images = job_.data.train.count(),
                     .epoch = epochs_done,
                     .step = step_,
                     .world_step = world_step_,
                     .clock = job_.mixed_clocks ? std::string(gx::mixed_clocks) : record_.clock,
                     .timed_as = record_.timed_as,
                     .seconds = record_.seconds,
                     .undisturbed_seconds = record_.undisturbed_seconds,
                     .dollars = record_.dollars,
                     .timed_images = timed_images_};
        c.options = job_.choices;
        c.notes = job_.notes;
        for (const LossRow& row : record_.losses) c.notes.push_back(note_of(row));
        state().save(c, slots_.get(queue()), slots_.get_scales(queue()));
        c.reducer = std::move(reducer_state_);
        c.record = rows_to_keep(record_, rows_);
        write_checkpoint(o_.output / checkpoint_name(epochs_done), job_.graph, c);
    }

    // ---- Accounting ----------------------------------------------------------------------
    /// Adds the time since `begin` to `where`; returns the current time.
    Nanoseconds account(double& where, Nanoseconds begin, const char* name) {
        const Nanoseconds now = rank_.now();
        where += seconds(now - begin);
        const Span span{rank_.rank(), Track::compute, name, begin, now, step_};
        if (job_.trace) job_.trace->add(span);
        else if (tracing_) spans_.push_back(span);
        return now;
    }
    /// A sum of times, or NaN where an earlier part was measured by another clock.
    [[nodiscard]] double over_all_parts(double sum) const {
        return job_.mixed_clocks ? std::numeric_limits<double>::quiet_NaN() : sum;
    }
    void trace(bool on) {
        tracing_ = on;
        if (job_.trace && rank_.rank() == 0) job_.trace->record(on, rank_.now());
    }
    GX_COLD void close_books() {
        breakdown_.idle = std::max(0.0, seconds_ - breakdown_.compute - breakdown_.input -
                                            breakdown_.exposed_communication);
        record_.breakdown = {over_all_parts(breakdown_.compute),
                             over_all_parts(breakdown_.exposed_communication),
                             over_all_parts(breakdown_.input), over_all_parts(breakdown_.idle)};
        record_.seconds = over_all_parts(seconds_);
        record_.dollars = over_all_parts(
            dollars_before_ + (job_.price * nanoseconds(seconds_ - seconds_before_)).count);
        record_.images = std::llround(timed_images_);
        record_.skipped_steps = skipped_before_ + skipped_;
        record_.bytes_sent_per_step = bytes_sent_;
        record_.weights_hash = weights_hash_;
        record_.undisturbed_seconds = job_.mixed_clocks ? 0.0 : undisturbed_seconds_;
        record_.spans.insert(record_.spans.end(), spans_.begin(), spans_.end());
        spans_.clear();
    }

    // ---- Losing a rank: impl/rank_survival.ipp --------------------------------------------------
    void run_or_leave();
    void join();
    void share_state();
    void restart(std::int64_t own, std::int64_t next);
    void add_loss(LossRow loss, std::int64_t step);
    void bring_time();
    void leave(bool lost);
    [[nodiscard]] StepsOfEpoch begin(int epoch);
    void keep_step(int count, std::int64_t step_of_epoch);
    void keep_snapshot(std::int64_t forwards, std::int64_t images);
    void close_book();

    Carries& carried_;
    const Job<Options>& job_;
    const Options& o_;
    Rank& rank_;
    RunRecord& record_;
    std::unique_ptr<Device> device_;
    std::size_t elements_;  ///< of the device's flat vector
    L loader_;
    std::optional<InMemory<>> test_loader_;  ///< where the run evaluates
    S scheduler_;
    O optimizer_;
    Buffer<float> vectors_;  ///< of the optimizer's state
    Slots slots_;
    Pipeline<R, M> pipeline_;
    Share share_;  ///< of the update
    Progress progress_;
    std::vector<double> sums_;  ///< loss, hits and images of each step of the epoch
    std::vector<StepRow> rows_;
    std::vector<Span> spans_;
    Breakdown breakdown_;
    std::vector<Checkpoint::ReducerVector> reducer_state_;  ///< of all ranks, on rank 0
    std::vector<StateShape> reserved_state_;                ///< of a run that writes checkpoints
    int first_epoch_ = 0;
    std::int64_t step_ = 0, skipped_ = 0, skipped_before_ = 0, bytes_sent_ = 0;
    std::int64_t updates_ = 0;        ///< gradients applied
    std::int64_t images_ = 0;         ///< of this rank, in this epoch
    std::int64_t images_of_all_ = 0;  ///< of all ranks
    std::int64_t resumed_at_ = 0;     ///< step of the checkpoint
    std::int64_t shift_ = 0;          ///< steps done minus the schedule's step
    std::int64_t steps_before_ = 0;   ///< of the schedule that the checkpoint was written under
    std::optional<S> scheduler_before_;
    double seconds_ = 0, epoch_begin_seconds_ = 0, undisturbed_seconds_ = 0;
    double seconds_before_ = 0, dollars_before_ = 0;  ///< of earlier parts, by the same clock
    double timed_images_ = 0;                         ///< of all ranks and all parts
    std::uint64_t weights_hash_ = 0;
    Nanoseconds mark_{};           ///< until when a step that a reducer owns is accounted for
    std::int64_t world_step_ = 0;  ///< at which the run has last begun without gradients in flight
    Nanoseconds accounted_{};      ///< seconds_ has the time up to here
    bool tracing_ = false;
    bool joined_ = false;  ///< it has a state
};

}  // namespace gx::detail::trainer

#include <gx/trainer/impl/rank_survival.ipp>  // templates too: leaving a world, joining the next
