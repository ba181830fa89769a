// RankTraining: a step whose reducer owns the update.
#pragma once

#include <cstdint>  // int64_t
#include <span>     // parameters
#include <vector>   // state

#include <gx/trainer/rank/training.hpp>  // RankTraining

namespace gx::detail::trainer {

GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::own_update() {
    static_assert(!OwnsUpdate<R> || owns_in_memory,
                  "gx: this reducer owns the update in the host's memory only, and the World's "
                  "gradients lie on devices. Fix: add 'void own_update(int rank, Buffer<float>& "
                  "state)' and let updated() take any Link, as Sharded does; or train on a world "
                  "of the host's memory.");
    share_.reserve(optimizer_, pipeline_.reducer(), rank_.rank(), rank_.ranks(), elements_,
                   device_->slices(), run_.graph(), memory());
    if constexpr (Share::in_parts)
        vectors_ = {memory(), std::int64_t(state_vectors<O>() * share_.elements()),
                    "optimizer state of a part"};
    if constexpr (on_host) pipeline_.reducer().own_update(rank_.rank(), vectors_.view());
    else if constexpr (owns_in_memory) pipeline_.reducer().own_update(rank_.rank(), vectors_);
}

GX_RANK_TRAINING
void GX_OF_RANK_TRAINING::apply_owned(const ReducedIn<M>& reduced) {
    const bool last = std::ssize(metrics_.rows) == steps_of_epoch_;
    if constexpr (on_host) {
        apply_on_host(reduced, last);
    } else if constexpr (Share::in_parts) {
        apply_in_parts(reduced, last);
    } else {
        update_by<Update<O, D, Share::counts_skipped>>(reduced);
        gx::working_on(rank_.transport(), {"exchanging the parameters", step_});
        const ReduceReport done =
            share_.updated(pipeline_.reducer(), *device_, rank_.transport(), last);
        bytes_sent_ += on_the_wire(done.bytes_sent);
    }
}

/// Queues the update of this rank's part in the memory of a device.
GX_RANK_TRAINING
void GX_OF_RANK_TRAINING::apply_in_parts(const ReducedIn<M>& reduced, bool last) {
    auto& link = rank_.transport();
    const ShardUpdate<O, D, M> update{.optimizer = &optimizer_,
                                      .gradients = reduced.values,
                                      .state = vectors_.template view<M>(),
                                      .scale = slots_.scale_of(reduced.index),
                                      .rate = slots_.rate(),
                                      .decisions = slots_.decisions()};
    gx::working_on(link, {"agreeing on an update", step_});
    share_.prepare(link, update, device_->parameters());
    agreed_ = link.queue().record();
    queue().wait_for(agreed_);
    const auto applied = slots_.applied_view(reduced.index);
    launch(queue(), DecideTogether<D>{}, share_.template against<M>(), slots_.decisions(), applied);
    pipeline_.settle({applied}, queue().record());
    gx::working_on(link, {"exchanging the parameters", step_});
    ReduceReport done;
    device_->update([&](ViewIn<float, M> parameters) {
        share_.update(queue(), update, parameters);
        done = share_.updated(pipeline_.reducer(), queue(), link, parameters, last);
    });
    bytes_sent_ += on_the_wire(done.bytes_sent);
}

GX_RANK_TRAINING
void GX_OF_RANK_TRAINING::apply_on_host(const ReducedIn<M>& reduced, bool last) {
    D& d = slots_.decisions()[0];
    UpdateArgs update{.gradients = reduced.values,
                      .state = vectors_.view(),
                      .slices = device_->slices(),
                      .rate = rate(std::int64_t(reduced.index)),
                      .unscale = 1.0f / slots_.scale_of(reduced.index),
                      .step = d.updates};
    bool applied = true;
    working_on("agreeing on an update");
    expect(share_.prepare(rank_.transport(), optimizer_, device_->parameters(), update, applied));
    mark_ = account(&Breakdown::exposed_communication, mark_, "WAIT_FOR_AGREEMENT");
    decide(d, applied);
    slots_.applied_view(reduced.index)[0] = applied;
    if (!applied) pipeline_.skip();
    else
        device_->update([&](std::span<float> parameters) {
            update.parameters = parameters;
            share_.update(optimizer_, update);
        });
    if (applied || Share::counts_skipped) ++d.updates;
    mark_ = account(&Breakdown::compute, mark_, "UPDATE");
    working_on("exchanging the parameters");
    const ReduceReport done =
        share_.updated(pipeline_.reducer(), *device_, rank_.transport(), applied, last);
    expect(done.delivery);
    bytes_sent_ += on_the_wire(done.bytes_sent);
    mark_ = account(&Breakdown::exposed_communication, mark_, "WAIT_FOR_PARAMETERS");
    if (applied) account_update(std::int64_t(reduced.index));
}

// ---- Checkpoints: the state of parts goes to rank 0 by the hosts, and is restored by them -------

GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::gather_optimizer_state() {
    working_on("gathering the optimizer's state");
    const auto mine = vectors_.template view<M>();
    Delivery d;
    if constexpr (on_host) d = share_.gather(control_of(rank_), mine, pipeline_.reducer());
    else if constexpr (Share::in_parts)
        d = share_.gather(control_of(rank_), get(queue(), mine), pipeline_.reducer());
    expect(d);
}

GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::restore_optimizer_state() {
    const auto mine = vectors_.template view<M>();
    if constexpr (on_host) {
        share_.end_restore(mine);
    } else if constexpr (Share::in_parts) {
        std::vector<float> here(mine.size());
        share_.end_restore(here);
        put(queue(), here, mine);
    }
}

}  // namespace gx::detail::trainer
