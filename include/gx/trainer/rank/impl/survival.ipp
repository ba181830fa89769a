// RankTraining's part in ContinueOnSurvivors: leaving a broken world, joining the next one.
#pragma once

#include <algorithm>  // copy, erase_if
#include <cstring>    // memcpy
#include <exception>  // exception_ptr
#include <string>     // notes
#include <vector>     // messages

#include <gx/core/hash_bits.hpp>         // hash_bytes
#include <gx/trainer/rank/training.hpp>  // RankTraining

// Invariants, as of a rank's number m of gradients that it has applied or left out:
//   - An averaged gradient that is complete on one rank has been contributed to by all. So every
//     survivor has made the forward pass of each gradient that any of them has applied.
//   - A rank ends an epoch with all its gradients complete, and applies what is complete when it
//     leaves. So m is in the present epoch of any survivor, or at the end of the epoch before; the
//     end of that epoch is then repeated, by all.

namespace gx::detail::trainer {

// ---- While no rank is lost ------------------------------------------------------------------

GX_RANK_TRAINING
auto GX_OF_RANK_TRAINING::begin(int epoch) -> StepsOfEpoch {
    if constexpr (!survives) {
        return begin_epoch(epoch);
    } else {
        if (epoch != first_epoch_ || carried_.present.epoch != epoch) {
            carried_.before = std::move(carried_.present);
            carried_.present = {.epoch = epoch,
                                .first_step = step_,
                                .timed_images = accounts_.timed_images,
                                .begin_seconds = begin_seconds(epoch)};
            return begin_epoch(epoch);
        }
        EpochMetrics& present = carried_.present;  // restart() has filled it
        const Course& course = carried_.course;
        const std::int64_t done = course.first_image - epoch * course.timetable.images();
        const std::int64_t left = course.steps_after(epoch, done);
        loader_->begin_epoch(epoch, done);
        metrics_.rows = std::exchange(present.rows, {});
        metrics_.sums = std::exchange(present.sums, {});
        const std::int64_t made = std::ssize(metrics_.rows), steps = made + left;
        metrics_.rows.reserve(std::size_t(steps));
        metrics_.sums.resize(3 * std::size_t(steps));
        metrics_.begin_seconds = present.begin_seconds;
        return {made, steps};
    }
}

/// Behind the backward pass of a step, before anything that can fail.
GX_RANK_TRAINING
void GX_OF_RANK_TRAINING::keep_step(int count, std::int64_t step_of_epoch) {
    const auto sums = metrics_.of_step(step_of_epoch);
    if constexpr (on_host) {
        const ForwardReport& report = slots_.report();
        metrics_.rows.back().loss_scale = slots_.scale_of(std::uint64_t(step_));
        sums[0] = report.loss_sum;
        sums[1] = double(report.correct);
    }
    sums[2] = count;
    keep_snapshot(step_ + 1, images_ + count, std::max(count - 1, 0) / phase().micro_batch);
    if constexpr (TimesItsWork<Rank>)
        carried_.snapshot(step_ + 1).undisturbed_seconds += undisturbed_passes(count);
}

GX_RANK_TRAINING
void GX_OF_RANK_TRAINING::keep_snapshot(std::int64_t forwards, std::int64_t images,
                                        int micro_batch) {
    Snapshot& s = carried_.snapshot(forwards);
    s.forwards = forwards;
    if constexpr (carries_state) {
        if constexpr (on_host) {
            const std::span<const float> now = device_->statistics();
            s.statistics.assign(now.begin(), now.end());
        } else {
            passes_.keep(queue(), forwards, device_->statistics(), slots_.report_view(micro_batch),
                         micro_batch > 0);
        }
    }
    s.images = images;
    s.undisturbed_seconds = accounts_.undisturbed_seconds;
    s.timed_gradients = timed_gradients_;
}

/// Before the sums of an epoch are added up over the ranks.
GX_RANK_TRAINING
void GX_OF_RANK_TRAINING::keep_metrics() {
    accounted_ = rank_.now();
    carried_.present.sums = metrics_.sums;
    carried_.present.rows = metrics_.rows;
}

// ---- Leaving --------------------------------------------------------------------------------

GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::run_or_leave() {
    std::exception_ptr loss;  // thrown on outside of its handler: leave() may wait
    carried_.lived = carried_.failed = false;
    carried_.names = -1;
    try {
        join();
        train();
    } catch (const LostRank& e) {
        loss = std::current_exception();
        carried_.names = e.lost();
    } catch (const DeviceLost&) {
        carried_.failed = true;
        abandon(rank_.rank());
        throw;
    }
    leave(loss != nullptr);
    carried_.lived = true;
    if (loss) std::rethrow_exception(loss);
}

GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::leave(bool lost) {
    if (joined_) {  // else it keeps what it came with
        if constexpr (carries_state) carry_state(lost);
        else if (lost) abandon(carried_.names);
    }
    if (lost) accounts_.seconds += seconds(rank_.now() - accounted_);
    for (StepRow& row : carried_.present.rows)  // one that a lost rank has cut short
        if (lost && row.step >= step_) row.seconds = accounts_.over_all_parts(accounts_.seconds);
    carried_.seconds = accounts_.seconds;
    carried_.dollars = accounts_.dollars();
    carried_.breakdown = accounts_.breakdown;
}

GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::carry_state(bool lost) {
    if (lost || on_host) apply_what_is_reduced();
    carried_.parameters = get(queue(), device_->parameters());
    carried_.optimizer = get(queue(), vectors_.template view<M>());
    if constexpr (KeepsScalars<O>)
        carried_.scalars.assign(optimizer_.scalars().begin(), optimizer_.scalars().end());
    const D decisions = slots_.get(queue());
    carried_.loss_scale = decisions.scale.state();
    carried_.updates = decisions.updates;
    carried_.skips_in_a_row = decisions.skips_in_a_row;
    carried_.skipped = decisions.skipped;
    carried_.skipped_before = skipped_before_;
    const bool within_epoch = carried_.present.sums.empty();
    if (within_epoch) {
        carried_.present.sums = metrics_.sums;
        carried_.present.rows = metrics_.rows;
    }
    if constexpr (on_host) carried_.reducer.emplace(std::move(pipeline_.reducer()));
    else read_device();
    carried_.trained = true;
}

/// The gradients that are complete on this rank, and not applied.
GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::apply_what_is_reduced() {
    if constexpr (on_host) {
        while (const auto late = pipeline_.drain()) {
            if (!late->report.complete()) break;
            apply(*late);
            record_outcome(-1, late);
            read_outcome();
        }
        (void)pipeline_.pending();  // nothing works on the reducer's state any more
    } else {
        // A device has done what needs no lost rank: updates up to the first that waits for one.
        while (slots_.is_there(queue())) read_outcome();
        const int complete = pipeline_.complete();
        abandon(carried_.names);
        for (int i = 0; i < complete; ++i) apply(*pipeline_.drain());
    }
}

GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::abandon([[maybe_unused]] int lost) {
    if constexpr (!on_host) {
        if constexpr (requires { rank_.transport().give_up(lost); })
            rank_.transport().give_up(lost);
        if (device_) queue().abandon();
        rank_.transport().queue().abandon();
    }
}

/// What the host of a device has not read yet: which gradients were applied, and what the forward
/// passes left.
GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::read_device() {
    carried_.gradients = carried_.updates + carried_.skipped + carried_.skipped_before;
    const auto applied = slots_.get_applied(queue());
    const std::int64_t n = std::ssize(applied), first = carried_.gradients - n;
    // The slots hold nothing of gradients before this world, and what is carried does.
    for (std::int64_t g = std::max(carried_.course.first_step, first); g < carried_.gradients; ++g)
        carried_.applied[std::size_t(g % n)] = applied[std::size_t(g % n)];
    const auto scales = slots_.get_scales(queue());
    EpochMetrics& epoch = carried_.present;
    passes_.each(queue(), [&](const Pass& pass, std::span<const float> statistics) {
        Snapshot& s = carried_.snapshot(pass.forwards);
        if (s.forwards == pass.forwards) s.statistics.assign(statistics.begin(), statistics.end());
        const std::int64_t step = pass.forwards - 1, row = step - epoch.first_step;
        if (step < carried_.course.first_step) return;  // the state that this world began with
        if (row < 0 || row >= std::ssize(epoch.rows)) return;
        const auto sums = epoch.of_step(row);
        sums[0] = pass.report.loss_sum;
        sums[1] = double(pass.report.correct);
        if (step >= carried_.gradients)  // else its outcome has it
            epoch.rows[std::size_t(row)].loss_scale = scales[std::size_t(step) % scales.size()];
    });
    read_reducer();
}

/// A reducer of the host takes over the state of the device's, and settles what that has not: a
/// gradient that was applied, and whose settle_on() was behind a reduction of the lost rank.
GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::read_reducer() {
    auto& stream = rank_.transport().queue();
    R& on_device = pipeline_.reducer();
    R& here = carried_.reducer.emplace(pipeline_.on_host_as_own(make_policy<R>(policies_.reducer)));
    const auto take_over = [&](const StateList& from, const StateList& to) {
        GX_EXPECT(from.size() == to.size(), "a reducer has the same state on a device");
        for (std::size_t i = 0; i < from.size(); ++i)
            std::ranges::copy(get(stream, state().view_of(from[i])), to[i].values.begin());
    };
    take_over(on_device.state(), here.state());
    if constexpr (Settles<R>) {
        take_over(on_device.unsettled(), here.unsettled());
        const std::vector<std::int64_t> settled = passes_.settled(stream);
        const std::int64_t end = carried_.gradients, n = std::ssize(settled);
        for (std::int64_t g = std::max(carried_.course.first_step, end - n); g < end; ++g)
            if (settled[std::size_t(g % n)] != g + 1)
                here.settle(std::uint64_t(g), carried_.was_applied(g));
    }
}

// ---- Joining --------------------------------------------------------------------------------

GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::join() {
    const bool later = run_.loss.ranks > 0;
    if (later) bring_time();
    if (carried_.trained) {
        if constexpr (carries_state) share_state();
    } else {
        start();
        carried_.gradients = timed_gradients_ = step_ - std::ssize(pipeline_.pending());
        carried_.before = carried_.present = {};
        carried_.course = {.timetable = run_.timetable,
                           .first_step = step_,
                           .first_image = first_epoch_ * run_.timetable.images() +
                                          (run_.resume ? run_.resume->within.images : 0)};
        keep_snapshot(step_, 0);
        if (later) {
            gone_back_to_ = run_.resume ? run_.resume->seconds : 0;
            bring_time();  // and not that of the checkpoint
            add_loss(run_.loss, step_);
        }
    }
    joined_ = true;
    if (!later) return;
    accounted_ = rank_.now();
    accounts_.seconds += seconds(accounted_);
}

/// The run's clock goes on where this rank left the last world, after the time of a restart.
GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::bring_time() {
    accounts_.seconds_before = carried_.seconds;
    accounts_.seconds = carried_.seconds + seconds(run_.restart_time);
    accounts_.dollars_before = carried_.dollars;
    accounts_.breakdown = carried_.breakdown;
}

// The member with the most gradients sends its state to those that are behind, on the channel above
// the reducer's, so its size is scaled to the timed model's. Its hash goes with it: what a wire
// without checksums spoils in a gradient is one step's noise, in the state it is every later
// step's.
GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::share_state() {
    struct Standing {
        std::int64_t gradients = 0;
        std::uint64_t hash = 0, check = 0;
        [[nodiscard]] std::uint64_t sum() const {
            return mix64(std::uint64_t(gradients) + golden64) ^ hash;
        }
    };
    auto& link = control_of(rank_);
    step_ = carried_.gradients;  // for errors
    std::vector<std::byte> message = carried_.common();
    Standing mine{.gradients = carried_.gradients, .hash = hash_bytes(message)};
    mine.check = mine.sum();
    std::vector<Standing> all(std::size_t(rank_.ranks()));
    working_on("comparing the survivors");
    expect(detail::gather_all(control_, std::as_bytes(std::span(&mine, 1)),
                              std::as_writable_bytes(std::span(all))));
    int source = 0;
    for (int r = 0; r < rank_.ranks(); ++r) {
        const Standing& s = all[std::size_t(r)];
        if (s.check != s.sum()) expect({Delivery::Outcome::corrupted, r});
        if (s.gradients > all[std::size_t(source)].gradients) source = r;
    }
    const Standing best = all[std::size_t(source)];
    for (int r = 0; r < rank_.ranks(); ++r)
        if (all[std::size_t(r)].gradients == best.gradients &&
            all[std::size_t(r)].hash != best.hash)
            throw_survivors_differ(best.gradients, r, source);

    working_on("sharing the state");
    const int channel = R::channels;
    if (rank_.rank() == source) {
        for (int r = 0; r < rank_.ranks(); ++r)
            if (all[std::size_t(r)].gradients < best.gradients)
                expect(link.wait(link.send(r, channel, message)));
    } else if (mine.gradients < best.gradients) {
        expect(link.wait(link.receive(source, channel, message)));
        if (hash_bytes(message) != best.hash) expect({Delivery::Outcome::corrupted, source});
        carried_.take(message, best.gradients);
        for (std::int64_t g = mine.gradients; g < best.gradients; ++g) mark_row(g);
    }
    restart(best.gradients);
}

/// The row that gradient `g` was applied in, now that this rank knows whether it was.
GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::mark_row(std::int64_t g) {
    for (EpochMetrics* const epoch : {&carried_.before, &carried_.present}) {
        const std::int64_t row = g + R::staleness - epoch->first_step;
        if (row >= 0 && row < std::ssize(epoch->rows))
            epoch->rows[std::size_t(row)].skipped = !carried_.was_applied(g);
    }
}

/// The state before gradient `next`, from what is carried.
GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::restart(std::int64_t next) {
    // The running statistics, and how many images they are of.
    const Snapshot from = carried_.snapshot(next);
    GX_EXPECT(from.forwards == next, "a survivor has seen every step that counts");
    std::vector<double> images{double(from.images)};
    working_on("counting the survivors' images");
    expect(sum_over_ranks(control_, images));

    EpochMetrics& epoch = carried_.present;
    if (carried_.before.epoch >= 0 && carried_.before.end() == next)
        epoch = std::move(carried_.before);
    carried_.before = {};
    if (epoch.epoch < 0)  // it had not begun its first epoch
        epoch = {.epoch = carried_.course.epoch_at(carried_.course.image_of(next)),
                 .first_step = next,
                 .timed_images = accounts_.timed_images,
                 .begin_seconds = accounts_.seconds};
    epoch.cut_at(next);
    if (watchers_) report_unseen(epoch);
    carried_.course = {.timetable = run_.timetable,
                       .first_step = next,
                       .first_image = carried_.course.image_of(next)};

    // The state that all share.
    device_->update(
        [&](ViewIn<float, M> parameters) { put(queue(), carried_.parameters, parameters); });
    put(queue(), carried_.optimizer, vectors_.template view<M>());
    if constexpr (KeepsScalars<O>)
        std::copy(carried_.scalars.begin(), carried_.scalars.end(), optimizer_.scalars().begin());
    D decisions{loss_scale_};
    decisions.scale.restore(carried_.loss_scale);
    decisions.updates = updates_ = carried_.updates;
    any_update_ |= updates_ > 0;
    decisions.skipped = skipped_ = carried_.skipped;
    decisions.skips_in_a_row = carried_.skips_in_a_row;
    slots_.put(queue(), decisions, {});
    skipped_before_ = carried_.skipped_before;
    pipeline_.restore(std::uint64_t(next), {});

    // Its own.
    LossRow loss = run_.loss;
    const StateList fresh = pipeline_.reducer().state(), kept_state = carried_.reducer->state();
    for (std::size_t i = 0; i < fresh.size(); ++i) {
        const std::span<const float> kept = kept_state[i].values;
        if constexpr (on_host) std::ranges::copy(kept, fresh[i].values.begin());
        else put(queue(), {kept.begin(), kept.end()}, state().view_of(fresh[i]));
        if (fresh[i].scope == StateScope::per_rank) loss.state.emplace_back(fresh[i].name);
    }
    put(queue(), from.statistics, device_->statistics());
    images_ = from.images;
    images_of_all_ = std::int64_t(images[0]);
    accounts_.undisturbed_seconds = from.undisturbed_seconds;
    for (auto g = std::max(from.timed_gradients, next - std::ssize(carried_.applied)); g < next;
         ++g)
        if (carried_.was_applied(g)) account_update(g);
    timed_gradients_ = next;
    accounts_.timed_images = epoch.timed_images;
    first_epoch_ = epoch.epoch;
    step_ = world_step_ = next;
    keep_snapshot(next, images_);
    if (fills_record()) {
        // Those of before a resume, where the rank that would have read them was lost.
        if (run_.resume && std::ssize(record_.epochs) < run_.resume->epoch)
            restore_rows(record_, *run_.resume, run_.resumed_from);
        record_.epochs.resize(std::size_t(epoch.epoch));
        std::erase_if(record_.steps,
                      [&](const StepRow& row) { return row.step >= epoch.first_step; });
    }
    add_loss(std::move(loss), next);
}

GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::add_loss(LossRow loss, std::int64_t step) {
    loss.step = step;
    report_start();    // where no step was made before
    report_written();  // what the world before it has left
    if (watchers_) {
        watchers_->ranks_lost({.row = loss,
                               .first_epoch = first_epoch_,
                               .first_schedule_step = schedule_step(step),
                               .schedule_steps = run_.plan.total_steps});
    }
    if (fills_record()) record_.losses.push_back(std::move(loss));
}

}  // namespace gx::detail::trainer
