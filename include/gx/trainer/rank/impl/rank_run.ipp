// Bodies of rank_run.hpp.
#pragma once

#include <algorithm>   // max, copy
#include <array>       // digits
#include <cmath>       // isfinite
#include <cstdio>      // snprintf
#include <exception>   // exception_ptr
#include <filesystem>  // checkpoints
#include <limits>      // NaN
#include <span>        // messages
#include <string>      // sentences
#include <utility>     // move, exchange

#include <gx/core/detail/rethrow_named.hpp>          // rethrow_named
#include <gx/core/error.hpp>                         // Error, LostRank
#include <gx/core/hash_bits.hpp>                     // hash_bits
#include <gx/io/atomic_file.hpp>                     // same_output
#include <gx/trainer/monitor/checkpoint_writer.hpp>  // CheckpointWriter
#include <gx/trainer/monitor/step_gate.hpp>          // StepGate
#include <gx/trainer/rank/rank_run.hpp>
#include <gx/trainer/rows.hpp>  // read_rows

namespace gx::detail::trainer {

GX_DECL RankRun::RankRun(const Run& run, ControlLink control, RunRecord& record, int first_epoch)
    : run_(run),
      o_(run.options),
      record_(record),
      control_(control),
      phase_(run.timetable.phase_of_epoch(first_epoch)),
      accounts_{.rank = control.rank(),
                .price = run.price,
                .mixed_clocks = run.mixed_clocks,
                .sink = run.trace} {
    if (rank() == 0 && run.watchers && !run.watchers->empty()) watchers_ = run.watchers.get();
}

GX_DECL RankRun::~RankRun() = default;

GX_DECL LoaderOptions RankRun::share(bool train) const {
    const int first = phase().first_epoch;
    const std::int64_t before =
        run_.timetable.first_step_of_epoch(first) - first * run_.timetable.steps_per_epoch(phase_);
    return {.batch = train ? phase().batch : phase().micro_batch,
            .ranks = ranks(),
            .rank = rank(),
            .seed = o_.seed,
            .shuffle = train,
            .image_side = phase().image_side,
            .pixels = o_.pixels,
            .draw_offset = std::uint64_t(before)};
}

GX_DECL void RankRun::compare_data() {
    for (const bool train : {true, false}) {
        if (!train && !o_.evaluate) continue;
        const DataText mine = text_of(train ? run_.data.train : run_.data.test);
        std::vector<DataText> all{std::size_t(ranks()), DataText{}};
        working_on("comparing the data sets");
        expect(detail::gather_all(control_, std::as_bytes(std::span(mine)),
                                  std::as_writable_bytes(std::span(all))));
        const std::string differs = other_data(train ? "training" : "test", all);
        if (differs.empty()) continue;
        (void)agree(control_, 0);  // all have read `all` before the first one throws
        throw Error(differs);
    }
}

GX_DECL void RankRun::resume_from(const Checkpoint& c) {
    first_epoch_ = c.epoch;
    world_step_ = c.world_step;
    step_ = resumed_at_ = c.step;
    updates_ = c.updates;
    RunRecord kept;
    read_rows(c.record, kept);
    skipped_before_ = kept.skipped_steps;
    any_update_ = run_.composition.updates_apart ? skipped_before_ < step_ : updates_ > 0;
    shift_ = c.step - run_.timetable.first_step_of_epoch(c.epoch);
    if (c.is_within()) {
        course_within_ = {.timetable = run_.timetable,
                          .first_step = step_,
                          .first_image = c.epoch * c.images + c.within.images};
        course_ = &course_within_;
    }
    accounts_.resume(c);
    if (!run_.mixed_clocks) accounts_.breakdown = kept.breakdown;
    if (!fills_record()) return;
    // A run that has lost ranks has its rows, but for those of the present epoch.
    const bool has_rows =
        std::ssize(record_.epochs) == c.epoch && (!c.is_within() || run_.loss.ranks > 0);
    if (!has_rows) restore_rows(record_, c, run_.resumed_from);
}

GX_DECL std::int64_t RankRun::take_within(const Checkpoint& c) {
    const Checkpoint::Within& w = c.within;
    const std::int64_t left = course_->steps_after(c.epoch, w.images);
    RunRecord rows;
    read_rows(c.record, rows);
    metrics_.rows = std::move(rows.steps);
    shared_skips_ = metrics_.rows.size();
    metrics_.rows.reserve(metrics_.rows.size() + std::size_t(left));
    metrics_.sums.assign(w.sums.size() + 3 * std::size_t(left), 0.0);
    if (rank() == 0) std::copy(w.sums.begin(), w.sums.end(), metrics_.sums.begin());
    metrics_.begin_seconds =
        run_.mixed_clocks ? std::numeric_limits<double>::quiet_NaN() : w.begin_seconds;
    images_of_all_ = w.images;
    images_ = c.ranks == ranks()  // else each goes on from the mean, with a share of the images
                  ? w.rank_images[std::size_t(rank())]
                  : w.images * (rank() + 1) / ranks() - w.images * rank() / ranks();
    return left;
}

GX_DECL void RankRun::gather_within(const std::vector<float>& statistics) {
    const bool first = rank() == 0;
    const auto n = std::size_t(ranks());
    within_ = {};
    std::vector<double> sums(metrics_.sums.begin(),
                             metrics_.sums.begin() + 3 * std::ssize(metrics_.rows));
    working_on("summing the metrics");
    expect(sum_over_ranks(control_, sums));
    std::vector<std::int64_t> images(first ? n : 0);
    working_on("gathering the running statistics");
    expect(detail::gather_to_first(control_, std::as_bytes(std::span(&images_, 1)),
                                   std::as_writable_bytes(std::span(images))));
    std::vector<float> all(first ? statistics.size() * n : 0);
    expect(detail::gather_to_first(control_, std::as_bytes(std::span(statistics)),
                                   std::as_writable_bytes(std::span(all))));
    if (!first) return;
    within_.images = images_of_all_;
    within_.begin_seconds = accounts_.over_all_parts(metrics_.begin_seconds);
    within_.sums = std::move(sums);
    within_.rank_images = std::move(images);
    for (auto from = all.begin(); within_.statistics.size() < n; from += std::ssize(statistics))
        within_.statistics.emplace_back(from, from + std::ssize(statistics));
}

GX_DECL float RankRun::rate(std::int64_t gradient) const {
    if (gradient < resumed_at_)
        for (const Checkpoint::Pending& p : run_.resume->pending)
            if (std::int64_t(p.index) == gradient) return p.rate;
    const int p =
        course_ ? course_->phase_of(gradient) : run_.timetable.phase_of_step(gradient - shift_);
    return rate_of(run_.rates[std::size_t(p)], schedule_step(gradient));
}

GX_DECL float RankRun::rate_of(const Rate& rate, Step step) const {
    const float x = rate(step);
    if (std::isfinite(x) && x >= 0) return x;
    std::array<char, 32> number{};
    std::snprintf(number.data(), number.size(), "%.9g", double{x});
    // A NaN would be found as that of a loss.
    throw Error("the Scheduler of " + run_.composition.name + " has a rate of " + number.data() +
                " at its step " + std::to_string(step) +
                ": a learning rate is finite and at least 0. Fix its rate(), or the options that "
                "it computes it from");
}

GX_DECL std::int64_t RankRun::schedule_step(std::int64_t step) const {
    return course_ ? course_->schedule_step(step) : run_.timetable.schedule_step(step - shift_);
}

GX_DECL void RankRun::report_start() {
    if (!watchers_) return;
    watchers_->run_begins({.record = record_,
                           .first_epoch = std::min(first_epoch_, o_.epochs - 1),
                           .first_step = step_,
                           .first_schedule_step = schedule_step(step_),
                           .schedule_steps = run_.plan.total_steps,
                           .changes = run_.changes});
}

GX_DECL void RankRun::keep_times(double step_seconds, const Breakdown& before, double images,
                                 bool collected) {
    const Breakdown& now = accounts_.breakdown;
    StepTimes& t = times_[std::size_t(step_) % times_.size()];
    t = {.seconds = step_seconds,
         .training_seconds = accounts_.over_all_parts(accounts_.seconds),
         .images = images,
         .sent_bytes = collected ? double(bytes_sent_) : 0,
         .breakdown = {
             .compute = now.compute - before.compute,
             .exposed_communication = now.exposed_communication - before.exposed_communication,
             .input = now.input - before.input}};
    Breakdown& b = t.breakdown;
    b.idle = std::max(0.0, step_seconds - b.compute - b.exposed_communication - b.input);
}

GX_DECL void RankRun::report_step(const UnreadStep& of, const StepRow& row) {
    const StepTimes& t = times_[std::size_t(of.step) % times_.size()];
    const auto per_second = [&](double x) { return t.seconds > 0 ? x / t.seconds : 0.0; };
    watchers_->step_done({.step = of.step,
                          .epoch = epoch_,
                          .epochs = o_.epochs,
                          .schedule_step = schedule_step(of.step + 1),
                          .training_seconds = t.training_seconds,
                          .seconds = t.seconds,
                          .loss_of_rank = metrics_.loss(of.step_of_epoch),
                          .rate = row.rate,
                          .loss_scale = row.loss_scale,
                          .skipped = row.skipped,
                          .images_per_second = per_second(t.images),
                          .breakdown = t.breakdown,
                          .sent_bytes_per_second = per_second(t.sent_bytes)});
}

GX_DECL void RankRun::report_unseen(const EpochMetrics& epoch) {
    for (std::size_t i = 0; i < epoch.rows.size(); ++i) {
        const StepRow& row = epoch.rows[i];
        if (row.step < watchers_->next_step()) continue;
        const double begin =
            i > 0 ? epoch.rows[i - 1].seconds : accounts_.over_all_parts(epoch.begin_seconds);
        watchers_->step_done({.step = row.step,
                              .epoch = epoch.epoch,
                              .epochs = o_.epochs,
                              .schedule_step = schedule_step(row.step + 1),
                              .training_seconds = row.seconds,
                              .seconds = begin <= row.seconds ? row.seconds - begin : 0,
                              .loss_of_rank = epoch.loss(std::int64_t(i)),
                              .rate = row.rate,
                              .loss_scale = row.loss_scale,
                              .skipped = row.skipped});
    }
}

GX_DECL void RankRun::take(const UnreadStep& of, const Outcome& outcome) {
    if (of.step_of_epoch >= 0) {
        const auto sums = metrics_.of_step(of.step_of_epoch);
        sums[0] = outcome.report.loss_sum;
        sums[1] = double(outcome.report.correct);
        StepRow& row = metrics_.rows[std::size_t(of.step_of_epoch)];
        row.loss_scale = outcome.scale_of_step;
        row.skipped = of.collected() && !outcome.applied;
        if (watchers_) report_step(of, row);
    }
    updates_ = outcome.updates;
    if (!run_.composition.updates_apart) {
        skipped_ = outcome.skipped;
        any_update_ |= updates_ > 0;
    }
    if (outcome.floor && outcome.skips_in_a_row >= o_.most_skips)
        throw_skips(rank(), of.step, outcome.skips_in_a_row, outcome.loss_scale,
                    run_.composition.wire, run_.composition.compute, run_.composition.reducer,
                    run_.composition.updates_apart);
}

GX_DECL void RankRun::stop_without_updates(float loss_scale) const {
    throw_skips(rank(), step_, 0, loss_scale, run_.composition.wire, run_.composition.compute,
                run_.composition.reducer, run_.composition.updates_apart);
}

GX_DECL EpochRow RankRun::row_of(int epoch, double images, double timed) {
    EpochRow row{
        .epoch = epoch, .step = step_, .seconds = accounts_.over_all_parts(accounts_.seconds)};
    const double count = metrics_.finish(row);
    images = (images < 0 ? count : images) * timed;
    accounts_.timed_images += images;
    if (std::isnan(metrics_.begin_seconds)) row.images_per_second = metrics_.begin_seconds;
    if (accounts_.seconds > metrics_.begin_seconds)
        row.images_per_second = images / (accounts_.seconds - metrics_.begin_seconds);
    return row;
}

GX_DECL void RankRun::average(std::vector<float>& statistics) {
    std::vector<double> sums(statistics.begin(), statistics.end());
    const auto images = double(std::exchange(images_, 0));
    const auto images_of_all = double(std::exchange(images_of_all_, 0));
    if (sums.empty()) return;
    for (double& x : sums) x *= images;
    working_on("averaging batch-norm statistics");
    expect(sum_over_ranks(control_, sums));
    for (std::size_t i = 0; i < sums.size(); ++i) statistics[i] = float(sums[i] / images_of_all);
}

GX_DECL void RankRun::share_skips() {
    const auto rows = std::span(metrics_.rows).subspan(shared_skips_);
    std::vector<double> skips(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) skips[i] = rows[i].skipped ? 1 : 0;
    working_on("counting the skipped steps");
    expect(sum_over_ranks(control_, skips));
    for (std::size_t i = 0; i < rows.size(); ++i) {
        rows[i].skipped = skips[i] > 0;
        skipped_ += skips[i] > 0;
        any_update_ |= skips[i] < ranks();
    }
    shared_skips_ += rows.size();
}

GX_DECL void RankRun::compare_replicas(std::uint64_t weights_hash) {
    weights_hash_ = weights_hash;
    working_on("comparing the replicas");
    const Agreement a = agree(control_, weights_hash_);
    expect(a.delivery);
    if (a.differs >= 0) throw_replicas_differ(step_, a.differs);
}

GX_DECL void RankRun::add_test(EpochRow& row, std::vector<double> sums) {
    working_on("summing the test results");
    expect(sum_over_ranks(control_, sums));
    if (!std::isfinite(sums[0])) return;  // untested
    row.test_loss = sums[0] / sums[3];
    row.test_accuracy_pct = 100 * sums[1] / sums[3];
    row.test_top5_accuracy_pct = 100 * sums[2] / sums[3];
}

GX_DECL void RankRun::gather(std::string_view name, bool replicated,
                             const std::vector<float>& mine) {
    auto& kept = reducer_state_.emplace_back(std::string(name), replicated);
    if (replicated) {
        working_on("comparing the reducers' states");
        const Agreement a = agree(control_, hash_bits(mine));
        expect(a.delivery);
        if (a.differs >= 0) throw_states_differ(step_, a.differs, run_.composition.reducer, name);
        kept.ranks.push_back(mine);
        return;
    }
    const bool first = rank() == 0;
    std::vector<float> all(first ? mine.size() * std::size_t(ranks()) : 0);
    working_on("gathering the reducers' states");
    expect(detail::gather_to_first(control_, std::as_bytes(std::span(mine)),
                                   std::as_writable_bytes(std::span(all))));
    if (!first) return;
    for (std::int64_t r = 0; r < ranks(); ++r) {
        const auto from = all.begin() + r * std::ssize(mine);
        kept.ranks.emplace_back(from, from + std::ssize(mine));
    }
}

GX_DECL void RankRun::record_epoch(const EpochRow& row) {
    write_record();
    record_.steps.insert(record_.steps.end(), metrics_.rows.begin(), metrics_.rows.end());
    record_.epochs.push_back(row);
    if (watchers_) watchers_->epoch_done({row, metrics_.rows, o_.evaluate});
}

GX_DECL void RankRun::write_record() {
    accounts_.write(record_);
    record_.skipped_steps = skipped_before_ + skipped_;
    record_.bytes_sent_per_step = bytes_sent_;
    record_.weights_hash = weights_hash_;
}

GX_DECL Checkpoint RankRun::checkpoint(int epochs_done) const {
    Checkpoint c{.model = std::string(run_.graph().name.view()),
                 .composition = run_.composition.name,
                 .seed = o_.seed,
                 .ranks = ranks(),
                 .batch = phase().batch,
                 .images = run_.data.train.count(),
                 .data_hash = run_.data_hash,
                 .test_data_hash = run_.test_data_hash,
                 .epoch = epochs_done,
                 .step = step_,
                 .world_step = world_step_,
                 .clock = run_.mixed_clocks ? std::string(gx::mixed_clocks) : record_.clock,
                 .timed_as = record_.timed_as,
                 .seconds = record_.seconds,
                 .undisturbed_seconds = record_.undisturbed_seconds,
                 .dollars = record_.dollars,
                 .timed_images = accounts_.timed_images};
    const SourceInfo info = run_.data.train.info();
    const ImageShape& input = phase().graph.input;
    c.input_format = {.shape = {input.channels, input.height, input.width},
                      .mean = info.mean,
                      .deviation = info.deviation,
                      .classes = info.classes,
                      .class_names = info.class_names};
    c.options = run_.composition.choices;
    c.notes = run_.notes;
    for (const LossRow& row : record_.losses) c.notes.push_back(note_of(row));
    return c;
}

GX_DECL void RankRun::write(Checkpoint& c) {
    c.reducer = std::move(reducer_state_);
    c.within = std::exchange(within_, {});
    for (std::size_t i = 0; c.is_within() && i < c.statistics.size(); ++i) {
        double sum = 0;
        for (std::size_t r = 0; r < c.within.statistics.size(); ++r)
            sum += double(c.within.rank_images[r]) * c.within.statistics[r][i];
        c.statistics[i] = float(sum / double(c.within.images));
    }
    c.record = rows_to_keep(record_, metrics_.rows);
    const std::filesystem::path file =
        o_.output / (c.is_within() ? step_checkpoint_name(c.step) : checkpoint_name(c.epoch));
    if (!run_.writer->has_begun()) {
        EarlierCheckpoints earlier;
        if (run_.resume && same_output(run_.resumed_from.parent_path(), o_.output))
            earlier = checkpoints_of(o_.output, run_.resume->step, record_, o_.evaluate);
        run_.writer->begin(std::move(earlier), run_.resumed_from);
    }
    KeptCheckpoint as{.file = file, .step = c.step};
    if (!c.is_within() && o_.evaluate)
        as.test_accuracy_pct = record_.epochs.back().test_accuracy_pct;
    run_.writer->write(std::move(c), std::move(as));
    report_written();
}

GX_DECL void RankRun::wait_until_saved() {
    if (!run_.composition.goes_back || o_.output.empty()) return;
    working_on("waiting for a checkpoint");
    expect(agree(control_, 0).delivery);
}

GX_DECL void RankRun::report_written() {
    if (rank() == 0 && run_.writer && run_.writer->has_news()) take_news();
}
GX_DECL void RankRun::take_news() {
    std::exception_ptr first;  // thrown when all have been told
    for (const CheckpointWriter::News& news : run_.writer->take_news()) {
        try {
            if (news.error.empty()) {
                if (run_.gate) run_.gate->written(news.file);
                if (watchers_) watchers_->checkpoint_written({news.file, news.step});
            } else {
                if (o_.checkpoints.stop_on_failure) throw Error(news.error);
                warn_of_checkpoint(news.step, news.error);
            }
        } catch (...) {
            if (!first) first = std::current_exception();
        }
    }
    if (first) std::rethrow_exception(first);
}

GX_DECL void RankRun::warn_of_small_buckets(std::int64_t elements, double wire_scale) {
    constexpr std::int64_t enough = 16;  // for a rank: chunks differ by a sixteenth at most
    if (elements == 0 || wire_scale <= 1 || elements >= enough * ranks()) return;
    std::string warning =
        "A bucket of the model that is timed is " + std::to_string(elements) +
        " elements of the one that is trained, which " + std::to_string(ranks()) +
        " ranks can't share equally: reductions may take longer than of the timed model. Train a "
        "larger model, or choose larger buckets.";
    if (std::ranges::find(record_.warnings, warning) == record_.warnings.end())
        record_.warnings.push_back(std::move(warning));
}
GX_DECL void RankRun::warn_of_checkpoint(std::int64_t step, const std::string& error) {
    record_.warnings.push_back("checkpoint after step " + std::to_string(step) + ": " + error);
}

GX_DECL void RankRun::finish_writing() {
    if (rank() != 0 || !run_.writer) return;
    run_.writer->finish();
    report_written();
}

GX_DECL Ask RankRun::asked() {
    const std::int64_t every = o_.checkpoints.every_steps;
    const Ask by_steps = every > 0 && step_ % every == 0 ? Ask::checkpoint : Ask::nothing;
    if (!run_.gate || !run_.gate->armed()) return by_steps;
    const Ask here = run_.gate->ask(step_);
    if (run_.in_one_process) return std::max(by_steps, here);
    asks_.resize(std::size_t(ranks()));
    working_on("agreeing on a checkpoint");
    expect(detail::gather_all(control_, std::as_bytes(std::span(&here, 1)),
                              std::as_writable_bytes(std::span(asks_))));
    return std::max(by_steps, *std::ranges::max_element(asks_));
}

GX_DECL Ask RankRun::due(bool last) {
    due_ = std::max(due_, asked());
    if (due_ == Ask::checkpoint && last) due_ = Ask::nothing;
    return due_;
}

GX_DECL bool RankRun::stops() {
    if (std::exchange(due_, Ask::nothing) != Ask::stop) return false;
    run_.gate->stopped(step_, o_.output.empty() ? std::filesystem::path()
                                                : o_.output / step_checkpoint_name(step_));
    return true;
}

GX_DECL void RankRun::working_on(const char* operation) {
    operation_ = operation;
    control_.working_on({operation, step_});
}

GX_DECL void RankRun::naming_errors(FunctionRef<void()> f) const {
    const auto named = [&] {
        try {
            f();
        } catch (...) {
            detail::rethrow_named("rank " + std::to_string(rank()) + ", step " +
                                  std::to_string(step_));
        }
    };
    with_memory(rank(), [&]() -> const RunPhase& { return phase(); }, named);
}

GX_DECL LostRank::Where RankRun::in_operation(std::int64_t step, const char* operation) const {
    return {.rank = rank(), .step = step, .operation = operation};
}
GX_DECL LostRank::Where RankRun::in_all_reduce(std::uint64_t gradient, int bucket,
                                               int buckets) const {
    return {rank(), std::int64_t(gradient), bucket, buckets, "all-reduce"};
}

GX_DECL void RankRun::stop_at_lost_rank(LostRank::Where where, Delivery d) const {
    throw LostRank(std::move(where), d);
}

GX_DECL void RankRun::stop_at_bad_loss(std::int64_t step, std::optional<std::string> layer) const {
    throw_bad_loss(rank(), step, layer.value_or("the loss"), rate(step));
}

GX_DECL void RankRun::stop_at_bad_test(int epoch, const std::optional<std::string>& layer) {
    finish_writing();
    std::error_code none;
    const std::string saved = o_.output.empty() ? "" : checkpoint_name(epoch + 1);
    const bool here =
        rank() == 0 && !saved.empty() && std::filesystem::is_regular_file(o_.output / saved, none);
    std::vector<double> written{here ? 1.0 : 0.0};
    const auto meet = [&](const char* operation) {
        working_on(operation);
        expect(sum_over_ranks(control_, written));
    };
    meet("waiting for the last checkpoint");
    if (layer) throw_bad_test(rank(), epoch, *layer, written[0] > 0 ? saved : "");
    meet("ending the run");  // by the error of a rank that has such an image
}

GX_DECL void RankRun::expect(Delivery d, std::int64_t step, const char* operation) const {
    if (d.complete()) return;
    stop_at_lost_rank(in_operation(step, operation), d);
}

}  // namespace gx::detail::trainer
