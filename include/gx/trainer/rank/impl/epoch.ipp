// RankTraining: the end of an epoch: metrics, statistics, test, checkpoint.
#pragma once

#include <string>   // names
#include <utility>  // exchange, move
#include <vector>   // sums

#include <gx/trainer/rank/training.hpp>  // RankTraining

namespace gx::detail::trainer {

GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::finish_epoch(int epoch) {
    if constexpr (survives) keep_metrics();
    expect(sum_over_ranks(control_of(rank_), metrics_.sums), "summing the metrics");
    average_statistics();
    check_replicas();
    if (epoch + 1 == o_.epochs && updates_ == 0)
        throw_skips(rank_.rank(), step_, 0, slots_.get(queue()).scale.scale(), R::wire_type::name,
                    run_.recipe.compute, reducer_name<R>());
    EpochRow row{
        .epoch = epoch, .step = step_, .seconds = accounts_.over_all_parts(accounts_.seconds)};
    double count = metrics_.finish(row);
    if constexpr (survives) count = double(loader_->images_per_epoch());  // and of lost ranks
    const double images = count * timed_images();
    accounts_.timed_images += images;
    if (accounts_.seconds > metrics_.begin_seconds)
        row.images_per_second = images / (accounts_.seconds - metrics_.begin_seconds);
    if (o_.evaluate) evaluate(row);
    if (!o_.output.empty()) gather_reducer_state();
    if (!o_.output.empty())
        expect(share_.gather(control_of(rank_), vectors_.template view<M>(), pipeline_.reducer()),
               "gathering the optimizer's state");
    if (!fills_record()) return;
    write_record();
    record_.steps.insert(record_.steps.end(), metrics_.rows.begin(), metrics_.rows.end());
    record_.epochs.push_back(row);
    if (!o_.output.empty() && rank_.rank() == 0) save(epoch + 1);
    share_.release();
}

/// Each rank saw other images; all go on with the mean, weighted by images of the epoch.
GX_RANK_TRAINING
void GX_OF_RANK_TRAINING::average_statistics() {
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

GX_RANK_TRAINING
GX_COLD std::vector<StateShape> GX_OF_RANK_TRAINING::state_shapes() {
    return shapes_of(pipeline_.reducer().state(), elements_, reducer_name<R>());
}

/// Rank 0 gets the reducer state of every rank, for its checkpoint.
GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::gather_reducer_state() {
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
            if (a.differs >= 0) throw_states_differ(step_, a.differs, reducer_name<R>(), v.name);
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

GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::check_replicas() {
    weights_hash_ = hash_bits(state().canonical(device_->parameters()));
    const Agreement a = agree(control_of(rank_), weights_hash_);
    expect(a.delivery, "comparing the replicas");
    if (a.differs >= 0) throw_replicas_differ(step_, a.differs);
}

GX_RANK_TRAINING
void GX_OF_RANK_TRAINING::evaluate(EpochRow& row) {
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

GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::save(int epochs_done) {
    Checkpoint c{.model = std::string(run_.graph().name.view()),
                 .composition = run_.recipe.name,
                 .seed = o_.seed,
                 .ranks = rank_.ranks(),
                 .batch = phase().batch,
                 .images = run_.data.train.count(),
                 .epoch = epochs_done,
                 .step = step_,
                 .world_step = world_step_,
                 .clock = run_.mixed_clocks ? std::string(gx::mixed_clocks) : record_.clock,
                 .timed_as = record_.timed_as,
                 .seconds = record_.seconds,
                 .undisturbed_seconds = record_.undisturbed_seconds,
                 .dollars = record_.dollars,
                 .timed_images = accounts_.timed_images};
    c.options = run_.recipe.choices;
    c.notes = run_.notes;
    for (const LossRow& row : record_.losses) c.notes.push_back(note_of(row));
    state().save(c, slots_.get(queue()), slots_.get_scales(queue()));
    c.reducer = std::move(reducer_state_);
    c.record = rows_to_keep(record_, metrics_.rows);
    write_checkpoint(o_.output / checkpoint_name(epochs_done), run_.graph(), c);
}

}  // namespace gx::detail::trainer
