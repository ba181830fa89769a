// ElasticTraining: training that continues on the surviving ranks after failures.
#pragma once

#include <algorithm>  // max, min
#include <chrono>     // a year
#include <cstdint>    // uint64_t
#include <cstring>    // memcpy
#include <exception>  // exception_ptr
#include <limits>     // largest int
#include <optional>   // faults
#include <span>       // samples
#include <string>     // sentences
#include <utility>    // move
#include <vector>     // history

#include <gx/core/error.hpp>                  // LostRank
#include <gx/core/hash_bits.hpp>              // hash_bits
#include <gx/io/problems.hpp>                 // Problems
#include <gx/loader/order.hpp>                // EpochOrder
#include <gx/reducer/pipeline.hpp>            // Pipeline
#include <gx/scheduler/concept.hpp>           // Plan
#include <gx/sim/world/cluster.hpp>           // Cluster
#include <gx/sim/elastic/elastic_core.hpp>    // Core
#include <gx/sim/elastic/elastic_record.hpp>  // Learner, ElasticOptions, ElasticRecord
#include <gx/sim/topology/check_cluster.hpp>  // check_cluster

namespace gx::sim {

/// Elastic data-parallel training: continues on the surviving ranks when ranks fail.
///
///     ElasticTraining<Ring<>, Constant> training(plain_p3_16xlarge(4), {.faults = ...}, {...});
///     ElasticRecord record = training.run(make);     make(rank): a unique_ptr to its Learner
///     ElasticRecord same = training.replay(record, make);   the same worlds, and no faults
///
/// When a rank fails, every other rank gets an error that names it and stops with the updates it
/// has made. Survivors may differ by a few updates, because an averaged gradient may have reached
/// only some of them. The next world is the largest core of equal machines without failed ranks.
/// Its member with the most updates sends its state to the others; steps that no member applied
/// are repeated. Samples are cut into steps from the end of the history, so the final history
/// contains each sample of an epoch once, for any rank counts.
///
/// The learning rate follows the progress in the data: the rate at the same sample of a run with
/// the present rank count. So LinearScaling follows the global batch.
///
/// Order:  the final state depends only on the history (which updates, over how many ranks):
///         replay() gives equal bits. Staleness restarts with each world: a gradient in flight at
///         the end of one is applied or recomputed, never applied late in the next.
/// Errors: invalid clusters, options and faults are one gx::Error; exceptions of the learner
///         propagate. `finished` is false when fewer than `fewest_ranks` are left.
template <class R, class S, class Inner = NoDevice>
class ElasticTraining {
    static_assert(explain_reducer<R>());
    static_assert(explain_scheduler<S>());

public:
    using World = Cluster<Inner>;
    using Rank = typename World::Rank;
    using Options = ElasticOptions<typename S::Options>;

    ElasticTraining(const ClusterSpec& spec, ClusterOptions world, Options options)
        : spec_(spec), world_(std::move(world)), o_(std::move(options)) {
        Problems problems;
        problems.check(o_.batch > 0 && o_.epochs > 0,
                       "batch is " + std::to_string(o_.batch) + " and epochs is " +
                           std::to_string(o_.epochs) + ": both must be at least 1");
        problems.check(o_.samples >= spec.ranks(),
                       "samples is " + std::to_string(o_.samples) +
                           ": an epoch needs at least one for each of the " +
                           std::to_string(spec.ranks()) + " ranks");
        problems.check(o_.samples <= std::numeric_limits<int>::max(),
                       "samples is " + std::to_string(o_.samples) + ": an epoch has at most " +
                           std::to_string(std::numeric_limits<int>::max()));
        const bool batches =
            problems.check(o_.batch <= std::numeric_limits<int>::max() / std::max(1, spec.ranks()),
                           "batch is " + std::to_string(o_.batch) +
                               ": a step of all ranks has at "
                               "most " +
                               std::to_string(std::numeric_limits<int>::max()) + " samples");
        if (batches && o_.batch > 0 && o_.epochs > 0 && o_.samples > 0 && spec.ranks() > 0)
            for (const auto sentence : check_options<S>(scheduler_options(spec.ranks())))
                problems.add(std::string(sentence));
        problems.check(o_.bucket_elements >= 0,
                       "bucket_elements is " + std::to_string(o_.bucket_elements) +
                           ": give a number of elements, or 0 for the reducer's own");
        problems.check(o_.fewest_ranks > 0 && o_.fewest_ranks <= spec.ranks(),
                       "fewest_ranks is " + std::to_string(o_.fewest_ranks) +
                           ": this cluster has " + std::to_string(spec.ranks()) +
                           " ranks; give 1 to as many");
        problems.check(o_.checkpoint_every >= 0, "checkpoint_every is " +
                                                     std::to_string(o_.checkpoint_every) +
                                                     ": give a number of updates, or 0 for none");
        problems.check(o_.recovery == Recovery::survivors || o_.checkpoint_every > 0,
                       "checkpoint_every is 0: recovery from checkpoints needs a number of "
                       "updates");
        problems.check(o_.restart_time.count() >= 0 && o_.restart_time <= most_restart_time,
                       "restart_time is " + std::to_string(o_.restart_time.count()) +
                           " ns: it must be from 0 to a year");
        problems.check(world_.deadline.count() > 0 && world_.deadline != Engine::no_deadline,
                       "deadline must be above 0 and finite: it detects failed ranks");
        if (problems.collect([&] { check_cluster(spec, world_.faults.reroutes()); }))
            check_faults(world_.faults.list(), spec, problems);
        problems.throw_if_any("this elastic training cannot run");
        fired_.assign(world_.faults.list().size(), false);
    }

    /// Runs to the end of the last epoch; each failure starts another world.
    /// Faults continue in later worlds whose members they hit.
    template <class Make>
    [[nodiscard]] ElasticRecord run(Make make) {
        ElasticRecord record;
        Run run{record, whole(spec_)};
        while (!run.core.members.empty() && !record.finished &&
               static_cast<int>(run.core.members.size()) >= o_.fewest_ranks)
            segment(run, make, faults_of(run), no_limit);
        finish(run);
        tell_unfired(record);
        return record;
    }
    /// Repeats the worlds of `history` without faults, each for its updates in the final history.
    template <class Make>
    [[nodiscard]] ElasticRecord replay(const ElasticRecord& history, Make make) {
        ElasticRecord record;
        Run run{record, {}};
        for (const ElasticSegment& s : history.segments) {
            if (s.updates == 0) continue;
            run.core = s.core;
            segment(run, make, {}, s.updates);
        }
        finish(run);
        return record;
    }
    /// Disables all faults from the second world on.
    void heal() { healed_ = true; }
    /// Whether fault `i` had an effect in the last run().
    [[nodiscard]] bool fault_fired(std::size_t i) const { return fired_[i]; }

private:
    static constexpr std::uint64_t no_limit = ~std::uint64_t{0};
    static constexpr Nanoseconds most_restart_time = std::chrono::hours(24 * 365);

    struct Checkpoint {
        std::uint64_t updates;
        std::vector<float> values;
        std::size_t whole;  ///< numbers that it had; fewer are left of a torn one
    };
    /// State of a rank of the whole cluster.
    struct Held {
        std::uint64_t updates = 0;
        std::vector<float> state{};  ///< empty: as its learner starts
    };
    struct Run {
        ElasticRecord& record;
        Core core;
        std::vector<Held> held{};  ///< by rank of the whole cluster
        std::vector<Checkpoint> checkpoints{};
        int written = 0;
        std::vector<std::size_t> faults{};  ///< of the present world, in the list of all
    };
    /// Data shared by the ranks of one world.
    struct Shared {
        std::uint64_t first = 0;
        std::int64_t begin = 0;
        int source = 0;
        bool share = false;
        std::uint64_t limit = no_limit;
        std::vector<Held>& held;
        const Core& core;
        Run& run;
        int live = 0;
    };

    [[nodiscard]] std::int64_t end_of_run() const { return o_.samples * o_.epochs; }
    [[nodiscard]] std::int64_t step_end(std::int64_t begin, int ranks) const {
        const std::int64_t epoch_end = (begin / o_.samples + 1) * o_.samples;
        return std::min(epoch_end, begin + std::int64_t{ranks} * o_.batch);
    }
    [[nodiscard]] Plan plan_of(int ranks) const {
        const std::int64_t global = std::int64_t{ranks} * o_.batch;
        Plan plan{.ranks = ranks, .global_batch = static_cast<int>(global)};
        plan.steps_per_epoch = (o_.samples + global - 1) / global;
        plan.total_steps = plan.steps_per_epoch * o_.epochs;
        return plan;
    }
    [[nodiscard]] auto scheduler_options(int ranks) const {
        return complete_options<S>(o_.scheduler, plan_of(ranks));
    }
    [[nodiscard]] float rate(std::int64_t begin, int ranks) const {
        const Plan plan = plan_of(ranks);
        const Step step =
            begin / o_.samples * plan.steps_per_epoch + begin % o_.samples / plan.global_batch;
        return S(scheduler_options(ranks)).rate(step);
    }

    [[nodiscard]] FaultList faults_of(Run& run) {
        FaultList faults;
        run.faults.clear();
        const bool later = !run.record.segments.empty();
        for (std::size_t i = 0; i < world_.faults.list().size() && !(healed_ && later); ++i) {
            if (std::holds_alternative<TornCheckpoint>(world_.faults.list()[i])) continue;
            if (later && fired_[i] && once(world_.faults.list()[i])) continue;
            auto seen = as_seen_by(run.core, spec_, world_.faults.list()[i], run.record.elapsed,
                                   static_cast<std::int64_t>(run.record.updates.size()));
            if (!seen) continue;
            faults.push_back(*seen);
            run.faults.push_back(i);
        }
        return faults;
    }
    static bool spoils(const FaultList& faults) {
        for (const Fault& f : faults)
            if (std::holds_alternative<FlippedBit>(f) || std::holds_alternative<NanInPayload>(f))
                return true;
        return false;
    }
    static bool once(const Fault& f) {
        return std::holds_alternative<FlippedBit>(f) || std::holds_alternative<NanInPayload>(f) ||
               std::holds_alternative<DeadInCollective>(f);
    }

    template <class Make>
    void segment(Run& run, Make& make, FaultList faults, std::uint64_t limit);
    template <class Make>
    void live(Rank& rank, Shared& w, Make& make);
    [[nodiscard]] bool share_state(Rank& rank, Shared& w, Held& mine);
    void checkpoint(Run& run, const Held& held);
    void close(Run& run, World& world, Shared& w, ElasticSegment& s);
    void leave_out(Run& run, const std::vector<bool>& left);
    /// Truncates the history to `updates`; updates that only failed ranks hold are repeated.
    static void keep(ElasticRecord& record, std::uint64_t updates) {
        for (ElasticSegment& s : record.segments) {
            const std::uint64_t end = std::max(s.first_update, updates);
            s.updates = std::min(s.updates, end - s.first_update);
        }
        record.updates.resize(updates);
    }
    void finish(Run& run) const {
        run.record.finished =
            !run.record.segments.empty() && !run.core.members.empty() &&
            (run.record.updates.empty() ? 0 : run.record.updates.back().end) == end_of_run();
        for (const int member : run.core.members)
            if (run.held[static_cast<std::size_t>(member)].updates == run.record.updates.size())
                run.record.state = run.held[static_cast<std::size_t>(member)].state;
    }
    void tell_unfired(const ElasticRecord& record) const {
        if (!world_.faults_must_fire) return;
        Problems problems;
        for (std::size_t i = 0; i < fired_.size(); ++i)
            if (!fired_[i])
                problems.add(describe(world_.faults.list()[i], i) + ": it had no effect before " +
                             "the training ended at " + std::to_string(record.elapsed.count()) +
                             " ns: give an earlier time, or one at which it matters");
        problems.throw_if_any("faults without effect");
    }

    ClusterSpec spec_;
    ClusterOptions world_;
    Options o_;
    std::vector<bool> fired_{};
    bool healed_ = false;
};

// ---- One world ------------------------------------------------------------------------

template <class R, class S, class Inner>
template <class Make>
void ElasticTraining<R, S, Inner>::segment(Run& run, Make& make, FaultList faults,
                                           std::uint64_t limit) {
    run.held.resize(static_cast<std::size_t>(spec_.ranks()));
    Shared w{.held = run.held, .core = run.core, .run = run};
    w.limit = limit;
    std::uint64_t most = 0, least = no_limit;
    for (std::size_t i = 0; i < run.core.members.size(); ++i) {
        const Held& h = run.held[static_cast<std::size_t>(run.core.members[i])];
        if (h.updates > most) most = h.updates, w.source = static_cast<int>(i);
        least = std::min(least, h.updates);
    }
    keep(run.record, most);
    w.first = most;
    w.share = least < most;
    w.begin = most == 0 ? 0 : run.record.updates.back().end;

    ClusterOptions options = world_;
    options.faults = std::move(faults);
    options.faults_must_fire = false;
    if (!run.record.segments.empty()) options.seed += run.record.segments.size();
    World world(run.core.cluster, std::move(options));
    ElasticSegment s{.core = run.core, .first_update = most};
    std::exception_ptr error;
    bool begun = false;
    try {
        world.run([&](Rank& rank) {
            begun = true;
            live(rank, w, make);
        });
    } catch (const LostRank& e) {
        s.ended = e.what();
    } catch (...) {
        error = std::current_exception();
    }
    if (error && !begun) std::rethrow_exception(error);  // the world could not be built
    s.elapsed = world.elapsed();
    s.event_hash = world.event_hash();
    for (std::size_t i = 0; i < run.faults.size() && i < world.options().faults.list().size(); ++i)
        if (world.fault_fired(i)) fired_[run.faults[i]] = true;
    if (error) std::rethrow_exception(error);
    close(run, world, w, s);
}

template <class R, class S, class Inner>
template <class Make>
void ElasticTraining<R, S, Inner>::live(Rank& rank, Shared& w, Make& make) {
    Held& mine =
        w.held[static_cast<std::size_t>(w.core.members[static_cast<std::size_t>(rank.rank())])];
    auto learner = make(rank);
    static_assert(Learner<std::remove_cvref_t<decltype(*learner)>>);
    if (w.share && !share_state(rank, w, mine)) return;
    if (!mine.state.empty()) learner->restore(mine.state);

    const int ranks = rank.ranks();
    Pipeline<R> pipeline({.placement = rank.transport().placement(),
                          .elements = learner->elements(),
                          .bucket_elements = o_.bucket_elements});
    std::vector<ElasticUpdate> steps;  // of this world, by gradient
    const auto apply = [&](const Reduced& got) {
        if (!got.report.complete()) {
            mine.state = learner->state();
            throw LostRank({rank.rank(), static_cast<std::int64_t>(w.first + got.index),
                            got.failed_bucket, got.buckets, "all-reduce"},
                           got.report.delivery);
        }
        const ElasticUpdate& step = steps[got.index];
        learner->apply(got.values, step.rate, static_cast<std::int64_t>(w.first + got.index));
        mine.updates = w.first + got.index + 1;
        auto& history = w.run.record.updates;
        if (history.size() < mine.updates) history.push_back(step);
        if (o_.checkpoint_every > 0 && rank.rank() == 0 &&
            mine.updates % static_cast<std::uint64_t>(o_.checkpoint_every) == 0) {
            mine.state = learner->state();
            checkpoint(w.run, mine);
        }
    };
    EpochOrder all(o_.samples, {.batch = static_cast<int>(o_.samples), .seed = o_.seed});
    int epoch = -1;
    std::int64_t begin = w.begin;
    for (std::uint64_t t = 0; begin < end_of_run() && t < w.limit; ++t) {
        const std::int64_t end = step_end(begin, ranks);
        steps.push_back({begin, end, ranks, rate(begin, ranks)});
        if (epoch != static_cast<int>(begin / o_.samples)) {
            epoch = static_cast<int>(begin / o_.samples);
            all.begin_epoch(epoch);
        }
        const std::int64_t count = end - begin, least = count / ranks, longer = count % ranks;
        const std::int64_t me = rank.rank();
        const auto mine_of_step = all.step(0).subspan(
            static_cast<std::size_t>(begin % o_.samples + me * least + std::min(me, longer)),
            static_cast<std::size_t>(least + (me < longer ? 1 : 0)));
        const auto gradient = pipeline.begin(t);
        learner->gradient(mine_of_step, static_cast<float>(ranks) / static_cast<float>(count),
                          gradient, [&](std::size_t watermark) {
                              pipeline.ready(rank.stream(), rank.transport(), watermark);
                          });
        pipeline.ready(rank.stream(), rank.transport(), 0);
        if (const auto got = pipeline.collect(t)) apply(*got);
        begin = end;
    }
    while (const auto late = pipeline.drain()) apply(*late);
    mine.state = learner->state();
}

// The member with the most updates sends its state to the others, on the channel above the
// reducer's, so its size is scaled to the timed model's. Its hash goes with it: what a wire without
// checksums spoils in a gradient is one step's noise, in the state it is every later step's.
template <class R, class S, class Inner>
bool ElasticTraining<R, S, Inner>::share_state(Rank& rank, Shared& w, Held& mine) {
    const int channel = R::channels;
    const auto of = [&](int r) -> Held& {
        return w.held[static_cast<std::size_t>(w.core.members[static_cast<std::size_t>(r)])];
    };
    std::vector<float> message = of(w.source).state;  // its length is known to all
    const std::size_t count = message.size();
    const auto hash = [&] { return hash_bits(std::span<const float>(message).first(count)); };
    message.resize(count + sizeof(std::uint64_t) / sizeof(float));
    const auto behind = [&](int r) { return of(r).updates < w.first; };
    const auto lost = [&](Delivery d) {
        throw LostRank({.rank = rank.rank(),
                        .step = static_cast<std::int64_t>(w.first),
                        .operation = "sharing the state"},
                       d);
    };
    if (rank.rank() == w.source) {
        const std::uint64_t sent = hash();
        std::memcpy(&message[count], &sent, sizeof sent);
        for (int r = 0; r < rank.ranks(); ++r) {
            if (r == w.source || !behind(r)) continue;
            const auto d = rank.transport().wait(
                rank.transport().send(r, channel, std::as_bytes(std::span(message))));
            if (!d.complete()) lost(d);
        }
    } else if (behind(rank.rank())) {
        std::fill(message.begin(), message.end(), 0.0f);
        const auto d = rank.transport().wait(rank.transport().receive(
            w.source, channel, std::as_writable_bytes(std::span(message))));
        if (!d.complete()) lost(d);
        std::uint64_t sent = 0;
        std::memcpy(&sent, &message[count], sizeof sent);
        if (sent != hash()) lost({Delivery::Outcome::corrupted, w.source});
        message.resize(count);
        mine = {w.first, std::move(message)};
    }
    return true;
}

}  // namespace gx::sim

#include <gx/sim/elastic/impl/elastic.ipp>  // checkpoints and recovery, templates too
