// RankTraining: what one rank does in a run; plain blocking code, the same in every world.
#pragma once

#include <bit>      // bit_cast
#include <cmath>    // llround
#include <memory>   // unique_ptr
#include <optional> // the test set
#include <string>   // sentences
#include <utility>  // move
#include <vector>   // flat vectors

#include <fmt/core.h>  // sentences

#include <gx/core/cold.hpp>  // GX_COLD
#include <gx/core/error.hpp>               // Error, LostRank, Delivery
#include <gx/core/units.hpp>               // Nanoseconds
#include <gx/core/world.hpp>               // RankContext
#include <gx/loader/dataset.hpp>           // Split
#include <gx/loader/in_memory.hpp>         // InMemory: the test set
#include <gx/model/graph.hpp>              // Graph
#include <gx/model/init.hpp>               // initial_parameters
#include <gx/optimizer/finite.hpp>         // all_finite
#include <gx/reducer/pipeline.hpp>         // Pipeline
#include <gx/scheduler/concept.hpp>        // Plan
#include <gx/trainer/checkpoint.hpp>       // Checkpoint
#include <gx/trainer/control.hpp>          // sum_over_ranks, agree
#include <gx/trainer/progress.hpp>         // Progress
#include <gx/trainer/rank_state.hpp>       // RankState
#include <gx/trainer/record.hpp>           // RunRecord
#include <gx/trainer/rows.hpp>             // rows in checkpoints

namespace gx::detail::trainer {

/// FNV-1a over the bits of a flat vector.
[[nodiscard]] inline std::uint64_t hash_bits(std::span<const float> values) {
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const float v : values) hash = (hash ^ std::bit_cast<std::uint32_t>(v)) * 0x100000001b3u;
    return hash;
}

/// What all ranks of a run share and none changes.
template <class Options>
struct Job {
    const Options& options;
    const Graph& graph;
    const Split& data;
    Plan plan;
    const Checkpoint* resume;    ///< nullptr: start anew
    double timed_images = 1;     ///< images on the clock for each one trained
    TraceSink* trace = nullptr;  ///< of the world, where it has one
};

template <class R, class S, class O, class L, class Scale, class Options, class Rank>
class RankTraining {
    using Device = typename Rank::Device;

public:
    GX_COLD RankTraining(const Job<Options>& job, Rank& rank, RunRecord& record)
        : job_(job),
          o_(job.options),
          rank_(rank),
          record_(record),
          device_(rank.make_device(job.graph,
                                   {.batch = o_.batch, .seed = o_.seed, .rank = rank.rank()})),
          elements_(device_->parameters().size()),
          loader_(job.data.train, share(true)),
          scheduler_(o_.scheduler),
          optimizer_(o_.optimizer),
          scale_(o_.loss_scale),
          pipeline_({.placement = rank.transport().placement(),
                     .elements = std::int64_t(elements_),
                     .bucket_elements = bucket_elements()}),
          scales_(std::size_t(R::staleness) + 1, 1.0f),
          progress_("training", job.plan.total_steps, "steps",
                    rank.rank() == 0 ? o_.progress : Progress::Style::silent) {
        optimizer_.reserve(elements_, device_->slices(), job.graph);
        if (o_.evaluate) test_loader_.emplace(job.data.test, share(false));
    }

    void run() {
        if (job_.resume) restore(*job_.resume);
        else initialise();
        for (int epoch = first_epoch_; epoch < o_.epochs; ++epoch) {
            train_epoch(epoch);
            finish_epoch(epoch);
        }
    }

private:
    GX_COLD [[nodiscard]] LoaderOptions share(bool train) const {
        return {.batch = o_.batch, .ranks = rank_.ranks(), .rank = rank_.rank(), .seed = o_.seed,
                .shuffle = train};
    }
    /// Buckets are meant in bytes of the timed model, where the clock is charged for another one.
    GX_COLD [[nodiscard]] std::int64_t bucket_elements() const {
        if constexpr (requires { R::bucket_elements; } && requires { device_->stretch(); })
            if (R::bucket_elements > 0)
                return std::max(
                    std::int64_t{1},
                    static_cast<std::int64_t>(double(R::bucket_elements) / device_->stretch()));
        return 0;  // what R asks for, or the whole gradient
    }

    // ---- Starting ------------------------------------------------------------------------
    [[nodiscard]] auto state() {
        return RankState{job_.graph, *device_, optimizer_, pipeline_, scale_, scales_};
    }
    GX_COLD void initialise() {
        std::vector<float> canonical(std::size_t(job_.graph.parameter_elements()));
        initial_parameters(job_.graph, o_.seed, canonical);
        state().load(canonical);
        initial_statistics(job_.graph, device_->statistics());
    }
    GX_COLD void restore(const Checkpoint& c) {
        state().restore(c);
        first_epoch_ = c.epoch;
        step_ = c.step;
        progress_.resume_from(step_);
        seconds_ = c.seconds;
        if (rank_.rank() != 0) return;
        read_rows(c.record, record_);
        breakdown_ = record_.breakdown;
        skipped_ = record_.skipped_steps;
    }

    // ---- One step ------------------------------------------------------------------------
    void train_epoch(int epoch) {
        loader_.begin_epoch(epoch);
        const std::int64_t steps = loader_.steps_per_epoch();
        sums_.assign(3 * std::size_t(steps), 0.0);
        rows_.clear();
        epoch_begin_seconds_ = seconds_;
        for (std::int64_t s = 0; s < steps; ++s) {
            trace(epoch == 0 && s >= steps - o_.trace_steps);
            train_step(s);
            progress_.update(step_, fmt::format("epoch {}/{}  loss {:.3f}", epoch + 1, o_.epochs,
                                                sums_[3 * std::size_t(s)] /
                                                    std::max(1.0, sums_[3 * std::size_t(s) + 2])));
        }
        trace(false);
        const Nanoseconds begin = rank_.now();
        if (epoch + 1 == o_.epochs)
            while (const auto late = pipeline_.drain()) apply(*late);
        else
            settle();
        account(breakdown_.exposed_communication, begin, "WAIT_FOR_ALLREDUCE");
        seconds_ += seconds(rank_.now() - begin);
    }

    void train_step(std::int64_t step_of_epoch) {
        const Nanoseconds begin = rank_.now();
        const RankBatch next = loader_.next();
        const Nanoseconds loaded = account(breakdown_.input, begin, "INPUT");

        const auto gradients = pipeline_.begin(std::uint64_t(step_));
        const ForwardReport report = device_->forward(next.batch, Mode::train);
        if (!report.finite) stop_at_bad_loss();
        const Nanoseconds forward = account(breakdown_.compute, loaded, "FORWARD");

        scales_[std::uint64_t(step_) % scales_.size()] = scale_.scale();
        const float factor = scale_.scale() * float(rank_.ranks()) / float(next.global_count);
        device_->backward(factor, gradients, [&](std::size_t watermark) {
            pipeline_.ready(rank_.stream(), rank_.transport(), watermark);
        });
        pipeline_.ready(rank_.stream(), rank_.transport(), 0);
        const Nanoseconds backward = account(breakdown_.compute, forward, "BACKWARD");

        rows_.push_back({.step = step_, .loss_scale = scale_.scale()});
        const auto reduced = pipeline_.collect(std::uint64_t(step_));
        const Nanoseconds waited =
            account(breakdown_.exposed_communication, backward, "WAIT_FOR_ALLREDUCE");
        if (reduced) {
            rows_.back().rate = scheduler_.rate(std::int64_t(reduced->index));
            rows_.back().skipped = !apply(*reduced);
            account(breakdown_.compute, waited, "UPDATE");
        }
        seconds_ += seconds(rank_.now() - begin);
        rows_.back().seconds = seconds_;
        auto* sums = &sums_[3 * std::size_t(step_of_epoch)];
        sums[0] = report.loss_sum;
        sums[1] = double(report.correct);
        sums[2] = next.batch.count;
        ++step_;
    }

    /// Update number `index` with its averaged gradient; false when it overflowed and is left out.
    /// All ranks hold the same bits, so they decide alike.
    bool apply(const Reduced& reduced) {
        if (!reduced.report.complete()) stop_at_lost_rank(reduced);
        bytes_sent_ = reduced.report.bytes_sent;
        if constexpr (requires { device_->stretch(); })  // as many as the timed model would send
            bytes_sent_ = std::llround(double(bytes_sent_) * device_->stretch());
        const float scale = scales_[reduced.index % scales_.size()];
        const bool finite = all_finite(reduced.values);
        scale_.learn(finite);
        if (!finite) {
            ++skipped_;
            return false;
        }
        const float rate = scheduler_.rate(std::int64_t(reduced.index));
        device_->update([&](std::span<float> parameters) {
            optimizer_.update(parameters, reduced.values, rate, 1.0f / scale);
        });
        return true;
    }
    void settle() {
        for (const PendingGradient& p : pipeline_.pending())
            if (!p.complete)
                throw LostRank({rank_.rank(), std::int64_t(p.index), p.failed_bucket,
                                pipeline_.buckets(), "all-reduce"}, p.delivery);
    }
    [[noreturn]] void stop_at_lost_rank(const Reduced& reduced) const {
        throw LostRank({rank_.rank(), std::int64_t(reduced.index), reduced.failed_bucket,
                        reduced.buckets, "all-reduce"}, reduced.report.delivery);
    }
    [[noreturn]] void stop_at_bad_loss() const {
        throw Error(
            fmt::format("rank {}, step {}: the loss is not a number; the first values that "
                        "are not come out of {}. Lower the learning rate ({} at this step), "
                        "lengthen the warmup, or look at this step's images.",
                        rank_.rank(), step_, device_->first_non_finite().value_or("the loss"),
                        scheduler_.rate(step_)));
    }
    void expect(Delivery d, const char* operation) const {
        if (d.complete()) return;
        throw LostRank({.rank = rank_.rank(), .step = step_, .operation = operation}, d);
    }

    // ---- The end of an epoch -------------------------------------------------------------
    GX_COLD void finish_epoch(int epoch) {
        expect(sum_over_ranks(rank_.transport(), sums_), "summing the metrics");
        average_statistics();
        check_replicas();
        EpochRow row{.epoch = epoch, .step = step_, .seconds = seconds_};
        double loss = 0, correct = 0, count = 0;
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            rows_[i].loss = sums_[3 * i] / sums_[3 * i + 2];
            loss += sums_[3 * i];
            correct += sums_[3 * i + 1];
            count += sums_[3 * i + 2];
        }
        row.train_loss = loss / count;
        row.train_accuracy_pct = 100 * correct / count;
        const double images = count * job_.timed_images;
        if (seconds_ > epoch_begin_seconds_)
            row.images_per_second = images / (seconds_ - epoch_begin_seconds_);
        if (o_.evaluate) evaluate(row);
        if (rank_.rank() != 0) return;
        close_books();
        record_.steps.insert(record_.steps.end(), rows_.begin(), rows_.end());
        record_.epochs.push_back(row);
        if (!o_.output.empty()) save(epoch + 1);
    }

    /// Each rank saw other images; the mean is what all go on with and what is tested.
    void average_statistics() {
        const auto mine = device_->statistics();
        std::vector<double> sums(mine.begin(), mine.end());
        if (sums.empty()) return;
        expect(sum_over_ranks(rank_.transport(), sums), "averaging batch-norm statistics");
        for (std::size_t i = 0; i < sums.size(); ++i) mine[i] = float(sums[i] / rank_.ranks());
    }
    GX_COLD void check_replicas() {
        weights_hash_ = hash_bits(state().canonical(device_->parameters()));
        const Agreement a = agree(rank_.transport(), weights_hash_);
        expect(a.delivery, "comparing the replicas");
        if (a.differs >= 0)
            throw Error(
                fmt::format("step {}: the weights of rank {} differ from those of rank 0. The "
                            "reducer gave ranks different averages; test it with the "
                            "conformance kit of gx/testing.",
                            step_, a.differs));
    }
    void evaluate(EpochRow& row) {
        std::vector<double> sums(3, 0.0);
        test_loader_->begin_epoch(0);
        for (std::int64_t s = 0; s < test_loader_->steps_per_epoch(); ++s) {
            const RankBatch next = test_loader_->next();
            const ForwardReport report = device_->forward(next.batch, Mode::evaluate);
            if (!report.finite) stop_at_bad_loss();
            sums[0] += report.loss_sum;
            sums[1] += double(report.correct);
            sums[2] += next.batch.count;
        }
        expect(sum_over_ranks(rank_.transport(), sums), "summing the test results");
        row.test_loss = sums[0] / sums[2];
        row.test_accuracy_pct = 100 * sums[1] / sums[2];
    }
    GX_COLD void save(int epochs_done) {
        Checkpoint c{.model = std::string(job_.graph.name.view()),
                     .composition = record_.composition, .seed = o_.seed, .epoch = epochs_done,
                     .step = step_, .seconds = seconds_};
        state().save(c);
        c.record = rows_text(record_);
        write_checkpoint(o_.output / fmt::format("epoch-{:04d}.safetensors", epochs_done),
                         job_.graph, c);
    }

    // ---- The books -----------------------------------------------------------------------
    /// Books the time since `begin`, and answers now.
    Nanoseconds account(double& where, Nanoseconds begin, const char* name) {
        const Nanoseconds now = rank_.now();
        where += seconds(now - begin);
        const Span span{rank_.rank(), Track::compute, name, begin, now, step_};
        if (job_.trace) job_.trace->add(span);
        else if (tracing_) spans_.push_back(span);
        return now;
    }
    void trace(bool on) {
        tracing_ = on;
        if (job_.trace && rank_.rank() == 0) job_.trace->record(on, rank_.now());
    }
    GX_COLD void close_books() {
        breakdown_.idle = std::max(0.0, seconds_ - breakdown_.compute - breakdown_.input -
                                            breakdown_.exposed_communication);
        record_.breakdown = breakdown_;
        record_.seconds = seconds_;
        record_.skipped_steps = skipped_;
        record_.bytes_sent_per_step = bytes_sent_;
        record_.weights_hash = weights_hash_;
        record_.spans.insert(record_.spans.end(), spans_.begin(), spans_.end());
        spans_.clear();
    }

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
    Scale scale_;
    Pipeline<R> pipeline_;
    std::vector<float> scales_;  ///< loss scale of each gradient in flight
    Progress progress_;
    std::vector<double> sums_;  ///< loss, hits and images of each step of the epoch
    std::vector<StepRow> rows_;
    std::vector<Span> spans_;
    Breakdown breakdown_;
    int first_epoch_ = 0;
    std::int64_t step_ = 0, skipped_ = 0, bytes_sent_ = 0;
    double seconds_ = 0, epoch_begin_seconds_ = 0;
    std::uint64_t weights_hash_ = 0;
    bool tracing_ = false;
};

}  // namespace gx::detail::trainer
