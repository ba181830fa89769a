// RankTraining: the end of an epoch: metrics, statistics, test, checkpoint.
#pragma once

#include <cmath>     // isnan
#include <optional>  // layers
#include <string>    // names
#include <utility>   // move
#include <vector>    // sums

#include <gx/trainer/rank/evaluation.hpp>  // Evaluation
#include <gx/trainer/rank/training.hpp>    // RankTraining

namespace gx::detail::trainer {

GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::finish_epoch(int epoch) {
    if constexpr (survives) keep_metrics();
    working_on("summing the metrics");
    expect(sum_over_ranks(control_, metrics_.sums));
    average_statistics();
    compare_replicas(hash_bits(state().canonical(device_->parameters())));
    if constexpr (updates_apart<R>) share_skips();
    if (epoch + 1 == o_.epochs && !any_update_)
        stop_without_updates(slots_.get(queue()).scale.scale());
    // With survivors, of lost ranks too.
    EpochRow row =
        row_of(epoch, survives ? double(loader_->images_per_epoch()) : -1, timed_images());
    std::optional<std::string> bad_test;
    if (o_.evaluate) bad_test = evaluate(row);
    if (!o_.output.empty()) {
        gather_reducer_state();
        gather_optimizer_state();
    }
    if (fills_record()) {
        record_epoch(row);
        if (!o_.output.empty() && rank() == 0) save(epoch + 1);
    }
    if (o_.evaluate && std::isnan(row.test_loss)) stop_at_bad_test(epoch, bad_test);
    share_.release();
    if constexpr (!on_host)
        if (epoch + 1 < o_.epochs) wait_until_saved();
}

/// Each rank saw other images; all go on with the mean, weighted by images of the epoch.
GX_RANK_TRAINING
void GX_OF_RANK_TRAINING::average_statistics() {
    std::vector<float> mine = get(queue(), device_->statistics());
    average(mine);
    if (!mine.empty()) put(queue(), mine, device_->statistics());
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
    expect_shapes(reserved_state_, state_shapes(), rank(), step_, run_.composition.reducer);
    for (const StateVector& v : pipeline_.reducer().state())
        gather(v.name, v.scope == StateScope::replicated, state().kept(v));
}

GX_RANK_TRAINING
std::optional<std::string> GX_OF_RANK_TRAINING::evaluate(EpochRow& row) {
    working_on("evaluating");
    std::vector<double> sums(4, 0.0);
    std::vector<float> weights;
    if constexpr (AveragesWeights<O>)
        if (updates_ > 0) {
            weights = state().canonical(device_->parameters());
            const auto all = vectors_.template view<M>();
            state().load(state().canonical(all.subspan(O::average_vector * elements_, elements_)));
        }
    const std::vector<SampleView> views =
        run_.data.test.views(phase().graph.input, epoch_, phase().batch);
    std::optional<std::string> bad;
    const auto bad_loss = [&](std::optional<std::string> layer) {
        if (!bad) bad = std::move(layer).value_or("the loss");
    };
    ViewIn<ForwardReport, M> report;
    if constexpr (!on_host) report = slots_.report_view();
    const Evaluation<Rank> test{rank_, run_, phase(), epoch_, report, bad_loss};
    if (views.empty()) {
        test_loader_->begin_epoch(epoch_);
        test.add(*device_, *test_loader_, sums);
    } else {
        test.add(*device_, state().canonical(device_->parameters()), views, device_options(), sums);
    }
    if (!weights.empty()) state().load(weights);
    add_test(row, std::move(sums));
    return bad;
}

/// Of a run that was over when it was resumed, and whose last epoch has no test.
GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::test_late() {
    std::optional<EpochRow> row = last_without_test(run_);
    if (!row) return;
    epoch_ = row->epoch;
    compare_replicas(hash_bits(state().canonical(device_->parameters())));
    const std::optional<std::string> bad = evaluate(*row);
    if (std::isnan(row->test_loss)) stop_at_bad_test(epoch_, bad);
    if (!fills_record()) return;
    write_record();
    record_.epochs.back() = *row;
    if (watchers_) watchers_->epoch_done({*row, {}, true});
    record_.notes.push_back(
        "All epochs had been done: this run has made the last one's test alone.");
}

GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::save(int epochs_done) {
    working_on("writing a checkpoint");
    Checkpoint c = checkpoint(epochs_done);
    state().save(c, slots_.get(queue()), slots_.get_scales(queue()));
    for (Checkpoint::Pending& p : c.pending) p.rate = rate(std::int64_t(p.index));
    write(c);
}

}  // namespace gx::detail::trainer
