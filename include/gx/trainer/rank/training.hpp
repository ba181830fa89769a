// RankTraining: the training loop of one rank; plain blocking code, the same in every world.
#pragma once

#include <algorithm>    // find
#include <cmath>        // llround
#include <concepts>     // same_as
#include <cstdint>      // int64_t, uint64_t
#include <filesystem>   // checkpoints
#include <memory>       // unique_ptr
#include <optional>     // the test set
#include <span>         // sums
#include <string>       // sentences
#include <type_traits>  // conditional_t, remove_cvref_t
#include <utility>      // move
#include <vector>       // flat vectors

#include <gx/core/cold.hpp>                   // GX_COLD
#include <gx/core/error.hpp>                  // Error, LostRank, Delivery
#include <gx/core/hash.hpp>                   // mix64
#include <gx/core/units.hpp>                  // Nanoseconds, DollarsPerHour
#include <gx/core/world.hpp>                  // RankContext
#include <gx/loader/source.hpp>               // Sources
#include <gx/loader/in_memory.hpp>            // InMemory: the test set
#include <gx/model/graph.hpp>                 // Graph
#include <gx/memory/buffer.hpp>               // Buffer
#include <gx/memory/kernels.hpp>              // DecodeAdd
#include <gx/memory/queue.hpp>                // launch
#include <gx/optimizer/shared_update.hpp>     // update_in_shares, all_finite_in_shares
#include <gx/optimizer/update_args.hpp>       // UpdateArgs
#include <gx/reducer/pipeline.hpp>            // PipelineOn
#include <gx/reflect/options_of.hpp>          // NoOptions, make_policy
#include <gx/reflect/type_name.hpp>           // type_name
#include <gx/trainer/rank/carried.hpp>        // Carried, Course
#include <gx/trainer/rank/decisions.hpp>      // Decisions, BeginStep, Decide, Update
#include <gx/trainer/rank/micro_batches.hpp>  // MicroBatches
#include <gx/trainer/rank/rank_run.hpp>       // RankRun
#include <gx/trainer/rank/state.hpp>          // RankState
#include <gx/trainer/setup.hpp>               // restore_rows, errors
#include <gx/trainer/weights.hpp>             // initial_weights
#include <gx/trainer/rank/step_slots.hpp>     // StepSlots, get, put, queue_of
#include <gx/trainer/rank/update_share.hpp>   // UpdateShare

namespace gx::detail::trainer {

/// Options of the policies that each rank makes for itself.
template <class R, class O, class Scale>
struct PolicyOptions {
    const options_of<R>& reducer;
    const options_of<O>& optimizer;
    const options_of<Scale>& loss_scale;
};

/// What a loader is built from.
template <class L>
[[nodiscard]] decltype(auto) data_of(const SourceRef& source) {
    if constexpr (std::constructible_from<L, SourceRef, LoaderOptions>) return SourceRef(source);
    else return *source.dataset();
}

/// Whether the work of a device can be dropped after a loss.
template <class Device>
concept AbandonsWork =
    requires(Device& d) { requires Abandons<std::remove_cvref_t<decltype(d.queue())>>; };

/// Whether it can't, and work behind messages that never came runs on.
template <class Device>
concept RunsAbandoned =
    requires(Device& d) { requires RunsAbandonedWork<std::remove_cvref_t<decltype(d.queue())>>; };

/// One rank of one world. With a Survival that continues, it brings a Carried from the world before
/// and takes it to the next.
template <class R, class O, class L, class Scale, class Survival, class Rank>
class RankTraining : RankRun {
    using Device = typename Rank::Device;
    using M = memory_of<Device>;
    static constexpr bool on_host = std::same_as<M, HostMemory>;
    using D = Decisions<Scale>;
    using Slots = StepSlots<D, std::size_t(R::staleness) + 1, M>;
    using Share = UpdateShare<R, O>;
    static constexpr bool survives = Survival::continues;
    /// Whether survivors of a loss can go on from what they hold; else they go back to a
    /// checkpoint.
    static constexpr bool carries_state = survives && !OwnsUpdate<R> && !RunsAbandoned<Device>;
    /// What the host of a device must ask for after a loss.
    using Passes = std::conditional_t<carries_state && !on_host, PassSlots<M>, NoOptions>;
    /// Whether R, which owns the update, does so in M.
    static constexpr bool owns_in_memory =
        on_host || requires(R& r, Buffer<float>& state) { r.own_update(int{}, state); };
    static constexpr bool repeats_steps = [] {
        if constexpr (on_host || !RepeatsWork<R> || !RepeatsPasses<Device>) return false;
        else
            return RepeatsQueuedWork<
                Rank, std::remove_cvref_t<decltype(std::declval<Device&>().queue())>>;
    }();
    static_assert(on_host || !survives || AbandonsWork<Device>,
                  "gx: ContinueOnSurvivors on devices needs queues that drop what a lost rank has "
                  "left unfinished, and this World's have no 'bool reached(Event) const' and 'void "
                  "abandon()'. Fix: leave it out; a run is resumed from a checkpoint.");
    static_assert(on_host || !carries_state || !Settles<R> || ShowsUnsettled<R>,
                  "gx: ContinueOnSurvivors on devices settles on the host what a loss has left "
                  "unsettled, and this Reducer has a settle() and no 'StateList unsettled()'. Fix: "
                  "add it, as reducer/error_feedback_state.hpp does, or leave ContinueOnSurvivors "
                  "out; a run is resumed from a checkpoint.");

public:
    using Carries = std::conditional_t<survives, Carried<R>, NoOptions>;

    GX_COLD RankTraining(const Run& run, const PolicyOptions<R, O, Scale>& policies, Rank& rank,
                         RunRecord& record, Carries& carried)
        : RankRun(run, control_of(rank), record, begins_in(run, carried)),
          policies_(policies),
          carried_(carried),
          loss_scale_(policies.loss_scale),
          rank_(rank),
          device_(rank.make_device(phase().graph, device_options())),
          elements_(device_->parameters().size()),
          loader_(std::in_place, data_of<L>(run.data.train), share(true)),
          optimizer_(policies.optimizer),
          vectors_(memory(), std::int64_t(Share::in_parts ? 0 : state_vectors<O>() * elements_),
                   "optimizer state"),
          slots_(memory(), D{loss_scale_}, o_.micro_batches),
          sum_(memory(), o_.micro_batches > 1 ? std::int64_t(elements_) : 0,
               "sum of micro-batches"),
          pipeline_(reductions_of(rank), rank.transport(),
                    {.elements = std::int64_t(elements_),
                     .bucket_elements = bucket_elements(),
                     .seed = o_.seed,
                     .slices = device_->slices(),
                     .memory = memory(),
                     .defers = defers()},
                    make_policy<R>(policies.reducer)) {
        if constexpr (survives) course_ = &carried_.course;
        if constexpr (OwnsUpdate<R>) own_update();
        else optimizer_.reserve(elements_, device_->slices(), run.graph());
        if (o_.evaluate) test_loader_.emplace(run.data.test, share(false));
        expect_phases_fit();
        expect_images();
        if (!o_.output.empty()) reserved_state_ = state_shapes();
        keep_warning();
    }

    RankTraining(const RankTraining&) = delete;
    RankTraining& operator=(const RankTraining&) = delete;
    ~RankTraining() {  // queued work uses what is released here
        if constexpr (!on_host) try {
                if (device_) (void)queue().wait(queue().record());
            } catch (const Error&) {  // of the device: the run has thrown it, or does not end well
            }
    }

    void run() {
        naming_errors([&] {
            if (run_.compares_data) compare_data();
            if constexpr (survives) run_or_leave();
            else run_to_the_end();
        });
    }
    /// The phase that it begins in.
    [[nodiscard]] static const RunPhase& first_phase(const Run& run, const Carries& carried) {
        return run.phases[std::size_t(run.timetable.phase_of_epoch(begins_in(run, carried)))];
    }

private:
    void run_to_the_end() {
        try {
            start();
            train();
        } catch (const LostRank& e) {
            if (on_host || e.where().rank >= 0) throw;
            expect(e.delivery(), step_, e.where().operation.c_str());  // a copy to the host
        }
    }
    [[nodiscard]] static int begins_in(const Run& run, [[maybe_unused]] const Carries& carried) {
        if constexpr (survives)
            if (carried.trained && carried.present.epoch >= 0) return carried.present.epoch;
        // A run that is over, and whose last test is to be made, is in its last phase.
        return run.resume ? std::min(run.resume->epoch, run.options.epochs - 1) : 0;
    }
    /// Of the device; nullptr: of the host.
    [[nodiscard]] MemoryResource* memory() {
        if constexpr (on_host) return nullptr;
        else return &rank_.memory();
    }
    [[nodiscard]] Passes make_passes() {
        if constexpr (carries_state && !on_host)
            return {memory(), carried_.snapshots.size(), device_->statistics().size(),
                    carried_.applied.size()};
        else return {};
    }
    [[nodiscard]] bool defers() const {
        if constexpr (repeats_steps) return repeats();
        else return false;
    }
    /// Whether steps are repeated: where no part of a batch is loaded within a step.
    [[nodiscard]] bool repeats() const {
        return rank_.repeats() && (LoadsParts<Device> || o_.micro_batches == 1);
    }
    /// Where kernels on the device's memory are queued.
    [[nodiscard]] decltype(auto) queue() { return queue_of(*device_); }
    GX_COLD [[nodiscard]] DeviceOptions device_options() const {
        UpdateCost update = Share::cost(rank_.ranks());
        update.micro_batches = o_.micro_batches;
        return {.batch = phase().micro_batch,
                .seed = o_.seed,
                .rank = rank_.rank(),
                .update = update,
                .compute = run_.composition.compute,
                .tf32 = run_.composition.tf32,
                .phase = phase_,
                .deterministic = o_.deterministic,
                .gradients = R::staleness + 1};
    }
    [[nodiscard]] MicroBatches parts_of(const Batch& batch) const {
        return {batch, phase().micro_batch, o_.micro_batches};
    }
    /// Nominal seconds of the passes over a rank's images of a step.
    [[nodiscard]] double undisturbed_passes(int images) const {
        const int part = phase().micro_batch;
        return images / part * seconds(rank_.undisturbed_pass(part)) +
               seconds(rank_.undisturbed_pass(images % part));  // of no images: nothing
    }
    /// Images on the clock for each one trained.
    [[nodiscard]] double timed_images() const {
        if constexpr (TimesItsWork<Rank>)
            return double(rank_.timed_count(phase().micro_batch)) / phase().micro_batch;
        else return 1;
    }
    /// Buckets are meant in bytes of the timed model, where the clock is charged for another one.
    GX_COLD [[nodiscard]] std::int64_t bucket_elements() const {
        if constexpr (requires { R::bucket_elements; })
            if (R::bucket_elements > 0)
                return std::max(
                    std::int64_t{1},
                    static_cast<std::int64_t>(double(R::bucket_elements) / wire_scale_of(rank_)));
        return 0;  // the whole gradient
    }

    // ---- Starting ------------------------------------------------------------------------
    void start() {
        if (run_.resume) restore(*run_.resume);
        else initialise();
    }
    void train() {
        report_start();
        for (int epoch = first_epoch_; epoch < o_.epochs; ++epoch) {
            if (const int p = run_.timetable.phase_of_epoch(epoch); p != phase_) begin_phase(p);
            if (!train_epoch(epoch)) break;
            finish_epoch(epoch);
        }
        if (first_epoch_ == o_.epochs) test_late();
        finish_writing();
    }
    [[nodiscard]] auto state() {
        return RankState{run_.graph(), *device_, optimizer_, pipeline_,
                         share_.state(vectors_.template view<M>())};
    }
    GX_COLD void initialise() {
        const Weights random = run_.initial ? Weights{} : initial_weights(run_.graph(), o_.seed);
        const Weights& w = run_.initial ? *run_.initial : random;
        state().load(w.parameters);
        put(queue(), w.statistics, device_->statistics());
        slots_.put(queue(), D{loss_scale_}, {});
    }
    GX_COLD void restore(const Checkpoint& c) {
        D decisions{loss_scale_};
        typename Slots::Scales scales{};
        share_.begin_restore();
        state().restore(c, rank_.rank(), run_.resumed_from.string(), c.epoch < o_.epochs, decisions,
                        scales);
        restore_optimizer_state();
        slots_.put(queue(), decisions, scales);
        resume_from(c);
        if (c.is_within() && c.ranks == ranks())
            put(queue(), c.within.statistics[std::size_t(rank())], device_->statistics());
    }

    // ---- One step ------------------------------------------------------------------------
    struct StepsOfEpoch {
        std::int64_t first, end;  ///< those before were made in an earlier world
    };
    [[nodiscard]] StepsOfEpoch begin_epoch(int epoch) {
        if (const Checkpoint* const c = within(epoch)) return go_on_within(*c);
        loader_->begin_epoch(epoch);
        const std::int64_t steps = loader_->steps_per_epoch();
        metrics_.begin(steps, begin_seconds(epoch));
        shared_skips_ = 0;
        return {0, steps};
    }
    /// Training time when `epoch` began for the first time, where it is made again: what a loss has
    /// cost belongs to it.
    [[nodiscard]] double begin_seconds(int epoch) const {
        if (!gone_back_to_ || epoch != first_epoch_) return accounts_.seconds;
        return accounts_.over_all_parts(*gone_back_to_);
    }
    /// Returns false where the run stops within the epoch.
    [[nodiscard]] bool train_epoch(int epoch) {
        epoch_ = epoch;
        const auto [first, steps] = begin(epoch);
        steps_of_epoch_ = steps;
        for (std::int64_t s = first; s < steps; ++s) {
            accounts_.trace(epoch == 0 && s >= steps - o_.trace_steps, rank_.now());
            if constexpr (survives) accounted_ = rank_.now();
            train_step(s);
            if (!attend(epoch, s + 1 == steps)) return false;
            report_written();
        }
        accounts_.trace(false, rank_.now());
        const Nanoseconds begin = rank_.now();
        Nanoseconds done = begin;
        if constexpr (survives) accounted_ = begin;
        if (epoch + 1 == o_.epochs)
            while (const auto late = pipeline_.drain()) {
                if constexpr (on_host)
                    mark_ = account(&Breakdown::exposed_communication, done, "WAIT_FOR_ALLREDUCE");
                apply(*late);
                if constexpr (on_host && !OwnsUpdate<R>)
                    mark_ = account(&Breakdown::compute, mark_, "UPDATE");
                if constexpr (on_host) done = mark_;
                record_outcome(-1, late);
                if (slots_.full()) read_outcome();
            }
        const Nanoseconds read = read_all_outcomes(done);
        settle();
        account(&Breakdown::exposed_communication, read, "WAIT_FOR_ALLREDUCE");
        accounts_.seconds += seconds(rank_.now() - begin);
        return true;
    }

    void train_step(std::int64_t step_of_epoch) {
        const Nanoseconds begin = rank_.now();
        const Breakdown before = accounts_.breakdown;
        const RankBatch next = loader_->next();
        if constexpr (!on_host) load(parts_of(next.batch));
        const Nanoseconds loaded = account(&Breakdown::input, begin, "INPUT");

        std::optional<ReducedIn<M>> reduced;
        const auto work = [&] { reduced = queue_step(next, step_of_epoch, loaded); };
        if constexpr (repeats_steps) {
            if (repeats() && pipeline_.repeats(std::uint64_t(step_))) repeat(next, work);
            else work();
        } else {
            work();
        }

        [[maybe_unused]] const std::optional<ReadStep> known = await_outcome();
        const Nanoseconds end = rank_.now();
        const double took = seconds(end - begin);
        accounts_.seconds += took;
        if constexpr (survives) accounted_ = end;
        metrics_.rows.back().seconds = accounts_.over_all_parts(accounts_.seconds);
        if (watchers_)
            keep_times(took, before, double(next.global_count) * timed_images(),
                       reduced.has_value());
        metrics_.of_step(step_of_epoch)[2] = next.batch.count;
        images_ += next.batch.count;
        images_of_all_ += next.global_count;
        if constexpr (TimesItsWork<Rank>)
            accounts_.undisturbed_seconds += undisturbed_passes(next.batch.count);
        if constexpr (on_host) read_outcome();
        else if (known) take_outcome(*known);
        ++step_;
    }
    /// The batch, or the first of its parts, and the learning rate of the step's update.
    void load(const MicroBatches& parts) {
        const bool updates = pipeline_.collects(std::uint64_t(step_));
        if constexpr (LoadsParts<Device>) {
            std::vector<Batch> all;
            for (int i = 0; i < parts.count(); ++i) all.push_back(parts[i]);
            device_->load(all, updates ? rate(step_ - R::staleness) : 0);
            slots_.use_rate(device_->rate());
        } else {
            device_->load(parts[0]);
            if (updates) set_rate(step_ - R::staleness);
        }
    }

    /// Steps of one number queue the same work but for values in memory. All ranks have it, where
    /// loaders cut tails of one length alike.
    [[nodiscard]] std::uint64_t work_of(const RankBatch& next) {
        const bool last = std::ssize(metrics_.rows) + 1 == steps_of_epoch_;
        std::uint64_t work = 0;
        for (const std::uint64_t part :
             {slots_.parity(std::uint64_t(step_)), std::uint64_t(device_->batch_slot()),
              std::uint64_t(pipeline_.has_deferred()),
              std::uint64_t(next_work(pipeline_.reducer(), last)), std::uint64_t(next.batch.count),
              std::uint64_t(next.global_count)})
            work = mix64(work ^ part) + golden64;
        return work;
    }
    void repeat(const RankBatch& next, FunctionRef<void()> work) {
        try {
            rank_.repeat(queue(), work_of(next), work);
        } catch (const NotRepeated& e) {
            throw_not_repeated(rank_.rank(), step_, run_.composition.reducer, e.what());
        }
    }

    /// Does the work of a step, or queues it: from a batch to an update. Returns the gradient that
    /// was applied.
    std::optional<ReducedIn<M>> queue_step(const RankBatch& next, std::int64_t step_of_epoch,
                                           Nanoseconds loaded) {
        const auto index = std::uint64_t(step_);
        launch(queue(), BeginStep<D>{float(rank_.ranks()), float(next.global_count)},
               slots_.decisions(), slots_.scale_view(index));
        const auto gradients = pipeline_.begin(index, slots_.scale_of(index));
        const MicroBatches parts = parts_of(next.batch);
        const Nanoseconds backward = make_passes(parts, gradients, loaded);

        metrics_.rows.push_back({.step = step_});
        if constexpr (survives) keep_step(next.batch.count, step_of_epoch);
        const auto reduced = pipeline_.collect(index);
        const Nanoseconds waited =
            account(&Breakdown::exposed_communication, backward, "WAIT_FOR_ALLREDUCE");
        if (reduced) {
            metrics_.rows.back().rate = rate(std::int64_t(reduced->index));
            mark_ = waited;
            if constexpr (on_host) apply(*reduced);
            else queue_update(*reduced);
            if constexpr (!OwnsUpdate<R>) account(&Breakdown::compute, waited, "UPDATE");
        }
        record_outcome(step_of_epoch, reduced, parts.count());
        return reduced;
    }

    /// The passes over a step's batch, part by part. The gradients of all but the last are summed
    /// apart; the last one's take in this sum, and are reduced, as they become final.
    Nanoseconds make_passes(const MicroBatches& parts, ViewIn<float, M> gradients,
                            Nanoseconds done) {
        const ViewIn<float, M> sum = sum_.template view<M>();
        const int last = parts.count() - 1;
        for (int i = 0; i <= last; ++i) {
            if constexpr (!on_host && !LoadsParts<Device>)
                if (i > 0) {
                    device_->load(parts[i]);
                    done = account(&Breakdown::input, done, "INPUT");
                }
            if constexpr (AwaitsBatches<Device>) {
                device_->await(parts[i]);
                if (rank_.now() > done) done = account(&Breakdown::input, done, "INPUT");
            }
            forward(parts[i], i, i == last);
            done = account(&Breakdown::compute, done, "FORWARD");
            if (i < last) {
                device_->backward(slots_.factor(), i == 0 ? sum : gradients,
                                  [](std::size_t, auto...) {});
                if (i > 0) add(gradients, sum);
            } else {
                std::size_t final = gradients.size();
                const auto take_in = [&](std::size_t watermark) {
                    if (watermark >= final) return;
                    add(sum.subspan(watermark, final - watermark),
                        gradients.subspan(watermark, final - watermark));
                    final = watermark;
                };
                device_->backward(slots_.factor(), gradients,
                                  [&](std::size_t watermark, auto... event) {
                                      if (last == 0) return pipeline_.ready(watermark, event...);
                                      take_in(watermark);
                                      ready(watermark);
                                  });
                if (last > 0) take_in(0);
                ready(0);
            }
            done = account(&Breakdown::compute, done, "BACKWARD");
        }
        return done;
    }
    void forward(const Batch& part, int index, [[maybe_unused]] bool last) {
        if constexpr (on_host) {
            const ForwardReport report = device_->forward(part, Mode::train);
            if (!report.finite) stop_at_bad_loss(step_, device_->first_non_finite());
            if (index == 0) slots_.report() = {};
            slots_.report() += report;
        } else {
            const auto report = slots_.report_view(index);
            device_->forward(Mode::train, report);
            if constexpr (carries_state)
                if (!last)
                    passes_.keep(queue(), step_ + 1, device_->statistics(), report, index > 0);
        }
    }
    /// Of gradients, on the device.
    void add(ViewIn<const float, M> from, ViewIn<float, M> to) {
        if (to.empty()) return;
        if constexpr (requires { device_->add(from, to); })
            accounts_.undisturbed_seconds += seconds(device_->add(from, to));
        else launch(queue(), kernels::DecodeAdd<fp32>{}, from, to);
    }
    void ready(std::size_t watermark) {
        if constexpr (on_host) pipeline_.ready(watermark);
        else pipeline_.ready(watermark, queue().record());
    }

    /// Queues the outcome of a step for the host.
    void record_outcome(std::int64_t step_of_epoch, const std::optional<ReducedIn<M>>& collected,
                        int micro_batches = 1) {
        UnreadStep of{.step_of_epoch = step_of_epoch, .step = step_};
        if (collected) {
            of.gradient = std::int64_t(collected->index);
            of.reduced = collected->reduced;
            of.agreed = agreed_;
        }
        slots_.record_outcome(queue(), of, micro_batches);
    }
    /// Waits for the oldest outcome of a device where no more fit: the host is a step ahead, and
    /// takes the pace of the device, in which the step's time is measured.
    [[nodiscard]] std::optional<ReadStep> await_outcome() {
        if constexpr (!on_host)
            if (slots_.full()) {
                const Nanoseconds queued = rank_.now();
                const ReadStep read = slots_.read_outcome(queue());
                account(&Breakdown::compute, queued, "WAIT_FOR_DEVICE");
                return read;
            }
        return std::nullopt;
    }
    /// Reads those that are left: on a device, behind all of its work since `begin`. Returns from
    /// when on the host waits for reductions.
    Nanoseconds read_all_outcomes(Nanoseconds begin) {
        while (!slots_.empty()) read_outcome();
        if constexpr (on_host) return begin;
        else return account(&Breakdown::compute, begin, "WAIT_FOR_DEVICE");
    }
    /// Reads the oldest outcome.
    void read_outcome() { take_outcome(slots_.read_outcome(queue())); }
    void take_outcome(const ReadStep& read) {
        const auto& [of, outcome, delivery] = read;
        if (!delivery.complete()) stop_at_unread(of, delivery);
        if (of.step_of_epoch >= 0 && !outcome.report.finite)
            stop_at_bad_loss(of.step, device_->first_non_finite());
        take(of, outcome);
    }

    /// Queues update number `index` with its averaged gradient, unless it overflowed. All ranks
    /// hold the same bits, so they decide alike.
    void apply(const ReducedIn<M>& reduced) {
        set_rate(std::int64_t(reduced.index));
        queue_update(reduced);
    }
    void set_rate(std::int64_t gradient) { slots_.set_rate(queue(), rate(gradient)); }
    void queue_update(const ReducedIn<M>& reduced) {
        if (!reduced.report.complete())
            stop_at_lost_rank(in_all_reduce(reduced.index, reduced.failed_bucket, reduced.buckets),
                              reduced.report.delivery);
        bytes_sent_ = on_the_wire(reduced.report.bytes_sent);
        if constexpr (OwnsUpdate<R>) apply_owned(reduced);
        else update_by<Update<O, D>>(reduced);
    }
    /// U: Update of this rank's parameters, by the mean or by its own gradient.
    template <class U>
    void update_by(const ReducedIn<M>& reduced) {
        const ViewIn<const float, M> mean = reduced.values;
        if constexpr (!on_host) device_->queue().wait_for(reduced.reduced);
        if constexpr (on_host && HasShares<Device>) {
            decide(slots_.decisions()[0], all_finite_in_shares(*device_, mean));
            slots_.applied_view(reduced.index)[0] = slots_.decisions()[0].applied;
        } else {
            launch(queue(), Decide<D>{}, mean, slots_.decisions(),
                   slots_.applied_view(reduced.index));
        }
        if constexpr (carries_state && on_host)
            carried_.settled(std::int64_t(reduced.index), slots_.decisions()[0].applied);
        if constexpr (on_host) {
            if (!slots_.decisions()[0].applied) return pipeline_.skip();
        } else {
            pipeline_.settle({slots_.applied_view(reduced.index)}, device_->queue().record());
            if constexpr (carries_state && Settles<R>)
                passes_.keep_settled(rank_.transport().queue(), std::int64_t(reduced.index));
        }
        const U update{&optimizer_, device_->slices().data(), device_->slices().size()};
        device_->update([&](ViewIn<float, M> parameters) {
            if constexpr (on_host && HasShares<Device> && UpdatesInShares<O>) {
                D& d = slots_.decisions()[0];
                gx::update_in_shares(
                    *device_, optimizer_,
                    update_args(update, parameters, mean, vectors_.view(),
                                slots_.scale_of(reduced.index), slots_.rate(), d.updates));
                ++d.updates;
            } else {
                launch(queue(), update, parameters, mean, slots_.scale_of(reduced.index),
                       slots_.rate(), vectors_.template view<M>(), slots_.decisions());
            }
        });
        account_update(std::int64_t(reduced.index));
    }
    /// The nominal time of the update by `gradient`.
    void account_update(std::int64_t gradient) {
        if constexpr (TimesItsWork<Rank>)
            accounts_.undisturbed_seconds += seconds(rank_.undisturbed_update());
        timed_gradients_ = gradient + 1;
    }
    /// Bytes that the timed model would send.
    [[nodiscard]] std::int64_t on_the_wire(std::int64_t bytes) const {
        return std::llround(double(bytes) * wire_scale_of(rank_));
    }

    // ---- A reducer that owns the update: impl/owned_update.ipp ----
    void own_update();
    void apply_owned(const ReducedIn<M>& reduced);
    void apply_in_parts(const ReducedIn<M>& reduced, bool last);
    void apply_on_host(const ReducedIn<M>& reduced, bool last);
    void gather_optimizer_state();
    void restore_optimizer_state();

    // ---- Errors --------------------------------------------------------------------------
    void settle() {
        for (const auto& p : pipeline_.pending())
            if (!p.complete)
                stop_at_lost_rank(
                    unfinished(in_all_reduce(p.index, p.failed_bucket, pipeline_.buckets())),
                    p.delivery);
    }
    /// The first messages that are not done, where the transport knows them, or else `where`.
    GX_COLD [[nodiscard]] LostRank::Where unfinished(LostRank::Where where) {
        if constexpr (requires { rank_.transport().unfinished(); })
            if (const auto o = rank_.transport().unfinished(); o && o->step >= 0)
                return {rank_.rank(), o->step, int(o->bucket), pipeline_.buckets(),
                        std::string(o->what.view())};
        return where;
    }
    /// Names what the host would have waited for, were the device's memory its own.
    [[noreturn]] GX_COLD void stop_at_unread(const UnreadStep& of, Delivery delivery) {
        const char* operation = OwnsUpdate<R> ? "exchanging the parameters" : "all-reduce";
        std::int64_t step = of.step;
        if constexpr (!on_host) {
            if (!queue().wait(of.reduced).complete()) step = of.gradient, operation = "all-reduce";
            else if (!queue().wait(of.agreed).complete()) operation = "agreeing on an update";
        }
        stop_at_lost_rank(unfinished(in_operation(step, operation)), delivery);
    }

    // ---- The end of an epoch: impl/epoch.ipp -------------------------
    void finish_epoch(int epoch);
    void average_statistics();
    [[nodiscard]] std::vector<StateShape> state_shapes();
    void gather_reducer_state();
    void test_late();
    /// Returns what had the first values that are not finite, if a test image of this rank had any.
    [[nodiscard]] std::optional<std::string> evaluate(EpochRow& row);
    void save(int epochs_done);

    // ---- Checkpoints within an epoch: impl/within.ipp ------------------
    [[nodiscard]] StepsOfEpoch go_on_within(const Checkpoint& c);
    [[nodiscard]] bool save_within(int epoch);
    [[nodiscard]] bool attend(int epoch, bool last);

    // ---- Accounting ----------------------------------------------------------------------
    /// Adds the time since `begin` to a part of the breakdown; returns the current time.
    Nanoseconds account(double Breakdown::* part, Nanoseconds begin, const char* name) {
        return accounts_.add(part, begin, rank_.now(), name, step_);
    }
    // ---- Phases: impl/phase.ipp --------------------------------------
    void expect_phases_fit();
    void begin_phase(int next);
    void expect_images();
    /// Of the device.
    GX_COLD void keep_warning() {
        if constexpr (requires { std::string(device_->warning()); })
            if (fills_record() && !device_->warning().empty() &&
                std::ranges::find(record_.warnings, device_->warning()) == record_.warnings.end())
                record_.warnings.push_back(device_->warning());
        if (fills_record()) warn_of_small_buckets(bucket_elements(), wire_scale_of(rank_));
    }

    // ---- Losing a rank: impl/survival.ipp ----------------------
    void run_or_leave();
    void join();
    void share_state();
    void mark_row(std::int64_t gradient);
    void restart(std::int64_t next);
    void add_loss(LossRow loss, std::int64_t step);
    void bring_time();
    void leave(bool lost);
    void carry_state(bool lost);
    void apply_what_is_reduced();
    void read_device();
    void read_reducer();
    void abandon(int lost);
    [[nodiscard]] StepsOfEpoch begin(int epoch);
    void keep_step(int count, std::int64_t step_of_epoch);
    void keep_snapshot(std::int64_t forwards, std::int64_t images, int micro_batch = 0);
    void keep_metrics();

    PolicyOptions<R, O, Scale> policies_;
    Carries& carried_;
    Scale loss_scale_;  ///< as a run begins with it
    Rank& rank_;
    std::unique_ptr<Device> device_;
    std::size_t elements_;  ///< of the device's flat vector
    std::optional<L> loader_;
    std::optional<InMemory<>> test_loader_;  ///< where the run evaluates
    O optimizer_;
    Buffer<float> vectors_;  ///< of the optimizer's state
    Slots slots_;
    Buffer<float> sum_;  ///< of a step's micro-batches but the last
    Share share_;        ///< of the update; its buffers end behind the pipeline, which waits
    PipelineOn<R, Rank> pipeline_;
    [[no_unique_address]] Passes passes_ = make_passes();
    std::vector<StateShape> reserved_state_;  ///< of a run that writes checkpoints
    Event agreed_{};  ///< on a device: behind the agreement on a shard's latest update
    std::int64_t steps_of_epoch_ = 0;   ///< of the present one
    Nanoseconds mark_{};                ///< until when a step that a reducer owns is accounted for
    Nanoseconds accounted_{};           ///< accounts_.seconds has the time up to here
    std::int64_t timed_gradients_ = 0;  ///< whose updates are in accounts_.undisturbed_seconds
    std::optional<double> gone_back_to_{};  ///< training time of the checkpoint, after a loss
    bool joined_ = false;                   ///< it has a state
};

// Before each body in impl/*.ipp.
#define GX_RANK_TRAINING \
    template <class R, class O, class L, class Scale, class Survival, class Rank>
#define GX_OF_RANK_TRAINING RankTraining<R, O, L, Scale, Survival, Rank>

}  // namespace gx::detail::trainer

// Templates too, by responsibility.
#include <gx/trainer/rank/impl/epoch.ipp>         // the end of an epoch
#include <gx/trainer/rank/impl/owned_update.ipp>  // a reducer that owns the update
#include <gx/trainer/rank/impl/phase.ipp>         // another batch and image size
#include <gx/trainer/rank/impl/survival.ipp>      // leaving a world, joining the next
#include <gx/trainer/rank/impl/within.ipp>        // checkpoints within an epoch
