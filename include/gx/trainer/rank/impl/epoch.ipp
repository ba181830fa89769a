// RankTraining: the end of an epoch: metrics, statistics, test, checkpoint.
#pragma once

#include <memory>   // a device of another shape
#include <span>     // sums
#include <string>   // names
#include <utility>  // exchange, move
#include <vector>   // sums

#include <gx/loader/source_part.hpp>     // SourcePart
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
    std::vector<double> sums(4, 0.0);
    std::vector<float> weights;
    if constexpr (AveragesWeights<O>)
        if (updates_ > 0) {
            weights = state().canonical(device_->parameters());
            const auto all = vectors_.template view<M>();
            state().load(state().canonical(all.subspan(O::average_vector * elements_, elements_)));
        }
    const std::vector<SampleView> views =
        run_.data.test.views(phase().graph.input, phase().first_epoch, phase().micro_batch);
    if (views.empty()) {
        test_loader_->begin_epoch(phase().first_epoch);
        evaluate(*device_, *test_loader_, sums);
    } else {
        evaluate_views(views, sums);
    }
    if (!weights.empty()) state().load(weights);
    add_test(row, std::move(sums));
}

/// Adds to loss, hits, hits among five and images, those of an epoch of `loader`.
GX_RANK_TRAINING
void GX_OF_RANK_TRAINING::evaluate(Device& device, InMemory<>& loader, std::span<double> sums) {
    for (std::int64_t s = 0; s < loader.steps_per_epoch(); ++s) {
        const RankBatch next = loader.next();
        ForwardReport report;
        if constexpr (on_host) {
            report = device.forward(next.batch, Mode::evaluate);
        } else {
            device.load(next.batch);
            device.forward(Mode::evaluate, slots_.report_view());
            report = get<ForwardReport>(device.queue(), slots_.report_view())[0];
        }
        if (!report.finite)
            throw_bad_loss(rank(), step_, device.first_non_finite().value_or("the loss"),
                           rate(step_));
        sums[0] += report.loss_sum;
        sums[1] += double(report.correct);
        sums[2] += double(report.top5);
        sums[3] += next.batch.count;
    }
}

/// Tests this rank's views, each in its own shape. A rank has consecutive ones, which are alike.
/// Cost: beside the device that trains another one for each shape but its own, one at a time.
GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::evaluate_views(std::span<const SampleView> views,
                                                 std::span<double> sums) {
    const std::vector<float> parameters = state().canonical(device_->parameters());
    const std::vector<float> statistics = get(queue(), device_->statistics());
    std::unique_ptr<Device> other;
    ImageShape shape = phase().graph.input;
    const auto share = [&](int r) { return views.size() * std::size_t(r) / std::size_t(ranks()); };
    const std::size_t first = share(rank()), end = share(rank() + 1);
    for (const SampleView& view : views.subspan(first, end - first)) {
        if (view.shape != shape) {
            shape = view.shape;
            other.reset();
            if (shape != phase().graph.input) {
                other = rank_.make_device(run_.graph_at(shape), device_options());
                auto load = [&](ViewIn<float, M> mine) { other->from_canonical(parameters, mine); };
                other->update(load);
                if constexpr (on_host) put(HostQueue{}, statistics, other->statistics());
                else put(other->queue(), statistics, other->statistics());
            }
        }
        const SourcePart part(run_.data.test, view);
        InMemory<> loader(part,
                          {.batch = phase().micro_batch, .shuffle = false, .pixels = o_.pixels});
        loader.begin_epoch(phase().first_epoch);
        evaluate(other ? *other : *device_, loader, sums);
    }
}

GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::save(int epochs_done) {
    working_on("writing a checkpoint");
    Checkpoint c = checkpoint(epochs_done);
    state().save(c, slots_.get(queue()), slots_.get_scales(queue()));
    for (Checkpoint::Pending& p : c.pending) p.image = image_of(std::int64_t(p.index));
    write(c);
}

}  // namespace gx::detail::trainer
