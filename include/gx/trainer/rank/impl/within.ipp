// RankTraining: checkpoints within an epoch, and going on from them.
#pragma once

#include <cstdint>  // int64_t
#include <vector>   // statistics

#include <gx/core/hash_bits.hpp>         // hash_bits
#include <gx/loader/concept.hpp>         // BeginsWithin
#include <gx/trainer/rank/training.hpp>  // RankTraining

namespace gx::detail::trainer {

/// The rest of an epoch, as its checkpoint left it.
GX_RANK_TRAINING
GX_COLD auto GX_OF_RANK_TRAINING::go_on_within(const Checkpoint& c) -> StepsOfEpoch {
    const std::int64_t left = take_within(c), done = c.within.images;
    if (left > 0) {  // else the epoch's end alone is to be made
        if constexpr (BeginsWithin<L>) {
            loader_->begin_epoch(c.epoch, done);
        } else {
            const std::int64_t global_batch = std::int64_t{phase().batch} * ranks();
            if (done % global_batch != 0) throw_not_within(type_name<L>(), done, global_batch);
            loader_->begin_epoch(c.epoch);
            for (std::int64_t s = 0; s < done / global_batch; ++s) (void)loader_->next();
        }
    }
    const std::int64_t made = std::ssize(metrics_.rows);
    return {made, made + left};
}

/// Behind a step: the checkpoint that is due, if any. Returns false where the run stops.
GX_RANK_TRAINING
bool GX_OF_RANK_TRAINING::attend(int epoch, bool last) {
    if constexpr (survives) accounted_ = rank_.now();
    if (due(last) == Ask::nothing) return true;
    if (!o_.output.empty() && !save_within(epoch)) return true;  // at a later step
    return !stops();
}

/// Returns false between two means of a reducer whose replicas differ there: a checkpoint has one
/// set of weights, and resumes as behind a mean.
GX_RANK_TRAINING
GX_COLD bool GX_OF_RANK_TRAINING::save_within(int epoch) {
    if constexpr (updates_apart<R>)
        if (!pipeline_.reducer().replicas_are_equal()) return false;
    const Nanoseconds begin = rank_.now();
    const Nanoseconds read = read_all_outcomes(begin);
    settle();  // a gradient in flight is waited for here, not hidden behind the next step
    account(&Breakdown::exposed_communication, read, "WAIT_FOR_ALLREDUCE");
    accounts_.seconds += seconds(rank_.now() - begin);
    if constexpr (survives) accounted_ = rank_.now();
    compare_replicas(hash_bits(state().canonical(device_->parameters())));
    if constexpr (updates_apart<R>) share_skips();
    gather_within(get(queue(), device_->statistics()));
    gather_reducer_state();
    gather_optimizer_state();
    if (rank() == 0) {
        write_record();
        save(epoch);
        if constexpr (survives) carried_.written.push_back({step_, epoch});
    }
    share_.release();
    if constexpr (!on_host) wait_until_saved();
    return true;
}

}  // namespace gx::detail::trainer
