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
    working_on("summing the metrics");
    expect(sum_over_ranks(control_, metrics_.sums));
    average_statistics();
    compare_replicas(hash_bits(state().canonical(device_->parameters())));
    if (epoch + 1 == o_.epochs && updates_ == 0)
        stop_without_updates(slots_.get(queue()).scale.scale());
    // With survivors, of lost ranks too.
    EpochRow row =
        row_of(epoch, survives ? double(loader_->images_per_epoch()) : -1, timed_images());
    if (o_.evaluate) evaluate(row);
    if (!o_.output.empty()) {
        gather_reducer_state();
        gather_optimizer_state();
    }
    if (!fills_record()) return;
    record_epoch(row);
    if (!o_.output.empty() && rank() == 0) save(epoch + 1);
    share_.release();
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
void GX_OF_RANK_TRAINING::evaluate(EpochRow& row) {
    working_on("evaluating");
    std::vector<double> sums(3, 0.0);
    test_loader_->begin_epoch(0);
    for (std::int64_t s = 0; s < test_loader_->steps_per_epoch(); ++s) {
        const RankBatch next = test_loader_->next();
        ForwardReport report;
        if constexpr (on_host) {
            report = device_->forward(next.batch, Mode::evaluate);
        } else {
            device_->load(next.batch);
            device_->forward(Mode::evaluate, slots_.report_view());
            report = get<ForwardReport>(queue(), slots_.report_view())[0];
        }
        if (!report.finite) stop_at_bad_loss(step_);
        sums[0] += report.loss_sum;
        sums[1] += double(report.correct);
        sums[2] += next.batch.count;
    }
    add_test(row, std::move(sums));
}

GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::save(int epochs_done) {
    working_on("writing a checkpoint");
    Checkpoint c = checkpoint(epochs_done);
    state().save(c, slots_.get(queue()), slots_.get_scales(queue()));
    for (Checkpoint::Pending& p : c.pending) p.image = image_of(std::int64_t(p.index));
    write(c, epochs_done);
}

}  // namespace gx::detail::trainer
