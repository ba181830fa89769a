// A trial: a Trainer that continues on survivors, on a logged cluster, judged by what it logged.
#include <fuzz/trial.hpp>

#include <algorithm>   // all_of, max
#include <bit>         // bit_cast
#include <filesystem>  // checkpoints
#include <string>      // sentences
#include <vector>      // what was seen

#include <unistd.h>  // getpid

#include <fuzz/oracles.hpp>         // check_mean, check_apart
#include <fuzz/training.hpp>        // train_replicas, train_owned
#include <fuzz/world.hpp>           // LoggedCluster
#include <gx/sim/race/monitor.hpp>  // detect_races

namespace gx::sim::fuzz {

namespace {

/// The gradients of each world that count: from `first` on, `kept` of them.
struct Part {
    std::int64_t first = 0, kept = 0;
};
/// Of the worlds of a run that has ended at step `end`.
[[nodiscard]] std::vector<Part> parts_of(const std::vector<LossRow>& losses, std::size_t worlds,
                                         std::int64_t end) {
    std::vector<Part> parts;
    for (int w = 0; w < static_cast<int>(worlds); ++w) {
        std::int64_t first = w == 0 ? 0 : -1, last = end;
        for (const LossRow& row : losses) {
            if (row.world == w) first = row.step;
            if (row.world > w) last = std::min(last, row.step);
        }
        parts.push_back({first, first < 0 ? 0 : std::max<std::int64_t>(0, last - first)});
    }
    return parts;
}

/// Means that a world has only applied: those in flight in the checkpoint that it began with.
[[nodiscard]] std::size_t inherited(const ReducerKind& kind, const Scenario& s,
                                    const RankLog& rank) {
    if (s.recovery == Recovery::survivors) return 0;
    if (rank.first < 0) return rank.resolved.size();
    return static_cast<std::size_t>(std::min<std::int64_t>(kind.staleness, rank.first));
}

/// As the scenario says, or the reducer asks for.
[[nodiscard]] std::int64_t bucket_elements(const ReducerKind& kind, const Scenario& s) {
    if (s.bucket_elements > 0) return s.bucket_elements;
    return kind.bucket_elements > 0 ? kind.bucket_elements : s.elements;
}

/// Every mean that was applied against the serial one of what the ranks had put in, as the reducer
/// promises it; and the same bits on every rank. A mean that is not finite is left out by all.
void check_means(const ReducerKind& kind, const Scenario& s, std::size_t world, const WorldLog& log,
                 Verdict& v) {
    const auto resolved = [&](const RankLog& rank) {
        const std::size_t before = std::min(inherited(kind, s, rank), rank.resolved.size());
        return std::span(rank.resolved).subspan(before);
    };
    std::size_t most = 0;
    for (const auto& r : log.ranks) most = std::max(most, resolved(r).size());
    Bias bias;
    for (std::size_t g = 0; g < most; ++g) {
        Gradient all{.kind = kind, .bucket_elements = bucket_elements(kind, s)};
        for (std::size_t r = 0; r < log.ranks.size(); ++r) {
            const auto& rank = log.ranks[r];
            if (g < rank.rows.size()) all.rows.push_back(rank.rows[g]);
            if (g >= resolved(rank).size()) continue;
            const RankLog::Resolved& got = resolved(rank)[g];
            if (all.first &&
                (all.first->applied != got.applied || !same_bits(all.first->mean, got.mean)))
                v.fail(Kind::correctness, at(world, r, g) + ": replicas are not bitwise equal");
            all.first = &got;
            all.resolved.push_back(&got);
            const auto gradients = static_cast<std::size_t>(kind.staleness) + 1;  // in flight
            all.earlier.push_back(g >= gradients ? &resolved(rank)[g - gradients] : nullptr);
        }
        if (all.rows.size() != log.ranks.size())
            return v.fail(Kind::correctness,
                          at(world, 0, g) + ": " +
                              std::to_string(log.ranks.size() - all.rows.size()) +
                              " ranks have put nothing in, and it is applied");
        const std::string wrong = check_mean(all, bias);
        if (!wrong.empty()) return v.fail(Kind::correctness, at(world, 0, g) + wrong);
    }
}

/// Each sample once an epoch in the history that counts; the final state is the sum of its means,
/// in order and to the bit, and counts them.
void check_history(const ReducerKind& kind, const Scenario& s, const Trial& t,
                   const std::vector<Part>& parts, const RunRecord& record, bool spoiled,
                   Verdict& v) {
    std::vector<int> seen(static_cast<std::size_t>(s.samples), 0);
    std::vector<float> sum(static_cast<std::size_t>(s.elements), 0.0f);
    double updates = 0;
    std::int64_t next = 0;
    for (std::size_t w = 0; w < t.worlds.size(); ++w) {
        if (parts[w].kept == 0) continue;
        if (parts[w].first != next)
            v.fail(Kind::correctness, "world " + std::to_string(w) + " begins with gradient " +
                                          std::to_string(parts[w].first) + " after " +
                                          std::to_string(next));
        next = parts[w].first + parts[w].kept;
        const auto kept = static_cast<std::size_t>(parts[w].kept);
        // The next world may begin with the last means, in flight in its checkpoint.
        std::size_t later = 0;
        for (std::size_t n = w + 1; n < t.worlds.size() && later == 0; ++n)
            if (parts[n].kept > 0) later = inherited(kind, s, t.worlds[n].ranks[0]);
        const RankLog* best = nullptr;
        std::size_t end = 0;
        for (const RankLog& rank : t.worlds[w].ranks) {
            for (std::size_t g = 0; g < std::min(kept, rank.samples.size()); ++g)
                for (const std::uint32_t sample : rank.samples[g])
                    if (sample < seen.size()) ++seen[sample];
            end = inherited(kind, s, rank) + kept - later;
            if (rank.resolved.size() >= end) best = &rank;
        }
        if (!best)
            return v.fail(Kind::correctness,
                          "no rank of world " + std::to_string(w) + " has applied all that counts");
        for (std::size_t g = 0; g < end; ++g) {
            if (!best->resolved[g].applied) continue;
            updates += 1;
            for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += best->resolved[g].mean[i];
        }
    }
    if (next != record.epochs.back().step || record.steps.size() != static_cast<std::size_t>(next))
        v.fail(Kind::correctness, "the record has " + std::to_string(record.steps.size()) +
                                      " steps of " + std::to_string(next));
    for (std::size_t i = 0; i < seen.size(); ++i)
        if (seen[i] != s.epochs)
            return v.fail(Kind::correctness, "sample " + std::to_string(i) + " was seen " +
                                                 std::to_string(seen[i]) + " times in " +
                                                 std::to_string(s.epochs) + " epochs");
    for (const RankLog& rank : t.worlds.back().ranks) {
        if (rank.sum.empty() || spoiled) continue;  // it has applied nothing in this world
        if (rank.updates != updates)
            return v.fail(Kind::correctness, std::to_string(updates) +
                                                 " updates count, and the final state holds " +
                                                 std::to_string(rank.updates));
        if (!same_bits(rank.sum, rank.parts.empty() ? sum : in_parts(sum, rank.parts)))
            return v.fail(Kind::correctness, "the final state is not the sum of what was applied");
    }
}

/// Updates apart: a world begins with the parameters that the one before has left behind the last
/// step that counts, and the state of a rank is the sum of its own gradients in all of them.
void check_apart_history(const Trial& t, const std::vector<Part>& parts, const RunRecord& record,
                         Verdict& v) {
    std::vector<int> members(t.worlds.front().ranks.size());  // of the present world
    for (std::size_t r = 0; r < members.size(); ++r) members[r] = static_cast<int>(r);
    std::vector<std::vector<float>> sums(members.size());
    const std::vector<float>* parameters = nullptr;
    for (std::size_t w = 0; w < t.worlds.size(); ++w) {
        for (const LossRow& row : record.losses)
            if (row.world <= static_cast<int>(w))
                std::erase_if(members, [&](int m) {
                    return std::ranges::find(row.lost, m) != row.lost.end();
                });
        const auto& ranks = t.worlds[w].ranks;
        const auto kept = static_cast<std::size_t>(parts[w].kept);
        if (kept == 0) continue;
        if (members.size() != ranks.size())
            return v.fail(Kind::correctness, "world " + std::to_string(w) + " has " +
                                                 std::to_string(ranks.size()) + " ranks of " +
                                                 std::to_string(members.size()));
        for (std::size_t r = 0; r < ranks.size(); ++r) {
            const RankLog& rank = ranks[r];
            if (rank.resolved.size() < kept) continue;  // it is lost
            if (parameters && rank.resolved[0].applied && !same_bits(rank.start, *parameters))
                return v.fail(Kind::correctness, at(w, r, 0) + ": it begins with other parameters");
            auto& sum = sums[static_cast<std::size_t>(members[r])];
            for (std::size_t g = 0; g < kept; ++g) {
                if (!rank.resolved[g].applied) continue;
                sum.resize(rank.rows[g].size());
                for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += rank.rows[g][i];
            }
            const bool last = w + 1 == t.worlds.size();
            if (last && !rank.own.empty() && !same_bits(rank.own, sum))
                return v.fail(Kind::correctness,
                              at(w, r, kept - 1) + ": its state is not that of its gradients");
        }
        for (const RankLog& rank : ranks)
            if (rank.resolved.size() >= kept) parameters = &rank.resolved[kept - 1].mean;
    }
}

/// Each step that counts has the images that its phase's batch and the ranks of its world cut from
/// the epoch.
void check_steps(const Scenario& s, const Trial& t, const std::vector<Part>& parts, Verdict& v) {
    int epoch = 0;
    std::int64_t done = 0;  // images of the epoch
    for (std::size_t w = 0; w < t.worlds.size(); ++w) {
        const auto& ranks = t.worlds[w].ranks;
        for (std::size_t g = 0; g < static_cast<std::size_t>(parts[w].kept); ++g) {
            std::int64_t images = 0;
            for (const RankLog& rank : ranks)
                if (g < rank.samples.size()) images += std::ssize(rank.samples[g]);
            const std::int64_t expected =
                std::min(s.samples - done, std::ssize(ranks) * s.batch_of(epoch));
            if (images != expected)
                return v.fail(Kind::correctness, at(w, 0, g) + " has " + std::to_string(images) +
                                                     " images of " + std::to_string(expected) +
                                                     " in epoch " + std::to_string(epoch));
            done += images;
            if (done == s.samples) ++epoch, done = 0;
        }
    }
}

/// Images of its epoch that were done before each world of a run in one phase.
std::vector<std::int64_t> images_before_worlds(const Scenario& s, const Trial& t) {
    std::vector<std::int64_t> out, before{0};  // `before`: by step, in the last world that made it
    for (const WorldLog& world : t.worlds) {
        std::int64_t first = 0;
        std::size_t steps = 0;
        for (const RankLog& rank : world.ranks) {
            first = std::max(first, rank.first);
            steps = std::max(steps, rank.rows.size());
        }
        GX_EXPECT(first < std::ssize(before), "a world goes on from a step that was made");
        before.resize(static_cast<std::size_t>(first) + 1);
        out.push_back(before.back());
        for (std::size_t g = 0; g < steps; ++g) {
            const std::int64_t done = before.back() + std::ssize(world.ranks) * s.batch;
            before.push_back(done >= s.samples ? 0 : done);
        }
    }
    return out;
}

/// Every survivor that did not finish was told, and the world ended no sooner than it had to.
void check_told(const ReducerKind& kind, const Scenario& s, const Trial& t, bool finished,
                Verdict& v) {
    for (const WorldLog& world : t.worlds)
        for (const std::string& problem : world.problems) v.fail(Kind::correctness, problem);
    if (s.benign() && (t.worlds.size() != 1 || !finished))
        v.fail(Kind::liveness,
               "no fault is lasting, and a world stopped: " + t.worlds.front().error);
    if (finished) return;
    const WorldLog& last = t.worlds.back();
    const int left = kind.goes_on(s.recovery) ? last.left : last.waiting;
    if (left > 0 && last.ranks.size() > 1 && last.told == 0)
        v.fail(Kind::liveness, "it stopped, and no survivor got an error");
}

/// Least bytes that a machine receives for an element of a gradient.
double least_bytes(const ReducerKind& kind) {
    switch (kind.accuracy) {
        case Accuracy::error_feedback: return 8 * kind.promise.sent_pct / 100.0;
        case Accuracy::unbiased: return kind.promise.levels > 7 ? 1 : 0.5;
        default: return static_cast<double>(kind.element_bytes);
    }
}

/// No world was quicker than it can be: in each update that is not late, the machines compute and
/// then hear of each other; and in any, a machine receives at least one gradient's bytes.
void check_floor(const ReducerKind& kind, const Scenario& s, const Trial& t,
                 const std::vector<Part>& parts, Verdict& v) {
    for (std::size_t w = 0; w < t.worlds.size(); ++w) {
        ClusterSpec c = t.worlds[w].cluster;
        c.profile = s.cluster.profile;  // what it should have paid
        if (c.machines < 2) continue;
        const double bytes = static_cast<double>(s.elements) * least_bytes(kind);
        const double carried = bytes / (c.nic_rate().count * c.machine.nics) * 0.999e9;
        const Nanoseconds heard = c.message_latency(LinkClass::net);
        const auto wire = heard + Nanoseconds(static_cast<std::int64_t>(carried));
        int early = 0;  // pieces that come after element 0, where there are more than elements
        while (s.elements * (early + 1) / s.pieces == 0) ++early;
        const Nanoseconds serial =
            std::max(heard + (s.pieces - early) * s.compute, s.pieces * s.compute);
        const Nanoseconds each = kind.owns.apart       ? s.pieces * s.compute
                                 : kind.staleness == 0 ? std::max(wire, serial)
                                                       : wire;
        if (t.worlds[w].elapsed >= parts[w].kept * each) continue;
        return v.fail(Kind::correctness, std::to_string(parts[w].kept) + " updates took " +
                                             std::to_string(t.worlds[w].elapsed.count()) +
                                             " ns, and none takes less than " +
                                             std::to_string(each.count()));
    }
}

/// A folder of this process that goes away; in memory where the system has such a place.
class Folder {
public:
    explicit Folder(bool needed) {
        if (!needed) return;
        const std::filesystem::path memory = "/dev/shm";
        path_ =
            (std::filesystem::exists(memory) ? memory : std::filesystem::temp_directory_path()) /
            ("gx_fuzz_" + std::to_string(::getpid()));
        std::filesystem::remove_all(path_);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() {
        std::error_code ignored;
        if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
    }
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_{};
};

}  // namespace

Verdict trial_of(const ReducerKind& kind, const Scenario& drawn, const Tampering& tampering) {
    Scenario s = drawn;
    if (kind.owns_update()) s.phases.clear();
    ClusterOptions options{
        .seed = s.seed,
        .deadline = s.deadline,
        .charge_reducer_kernels = tampering.charge_reducer_kernels,
        .faults = s.faults,
        .delivery = tampering.delivery,
        .limits = {.time = 100 * s.deadline, .waits = 200'000, .failed_waits = 5'000},
        .faults_must_fire = false,
        .detect_races = s.races};
    options.delivery.checksum = s.checksum;
    ClusterSpec cluster = s.cluster;
    if (tampering.no_profile) cluster.profile = exact;
    const Folder folder(s.recovery == Recovery::checkpoint);
    Trial t{.scenario = s,
            .tampering = tampering,
            .wire_scale = AnyReducer<0>::scale_for(bucket_elements(kind, s)),
            .folder = folder.path()};
    LoggedCluster world(cluster, options, t);

    Verdict v;
    RunRecord record;
    bool finished = false;
    std::string stopped;
    try {
        record = (s.phases.empty() ? kind.owns_update() ? train_owned : train_replicas
                                   : train_in_phases)(kind, world, s, folder.path());
        finished = true;
    } catch (const Stuck& e) {
        v.fail(Kind::liveness, e.what());
        return v;
    } catch (const Race& e) {
        v.fail(Kind::correctness, e.what());
        return v;
    } catch (const Error& e) {
        stopped = e.what();
    } catch (const std::exception& e) {
        v.fail(Kind::crash, std::string("an exception reached the caller: ") + e.what());
        return v;
    }
    v.fired = t.fired;
    const auto has_fired = [&](FaultClass c) { return v.fired[static_cast<std::size_t>(c)]; };
    // Where nobody looked, what the gradients are worth is not the reducer's.
    const bool spoiled =
        !s.checksum && (has_fired(FaultClass::bit_flip) || has_fired(FaultClass::nan));
    // Where every mean overflows the Trainer stops, and it should.
    const auto none_applied = [&] {  // in the last world; those before may have been undone
        const auto applied = [](const RankLog& rank) {
            return std::ranges::any_of(rank.resolved, &RankLog::Resolved::applied);
        };
        const auto& ranks = t.worlds.back().ranks;
        if (kind.owns.apart && std::ranges::all_of(ranks, applied)) return false;  // each its own
        for (const RankLog& rank : ranks)
            if (rank.updates > 0) return false;
        return s.overflows && stopped.find("steps were skipped") != stopped.npos;
    };
    const bool overflowed = !finished && none_applied();
    if (!spoiled) {
        const auto images =
            kind.owns.apart ? images_before_worlds(s, t) : std::vector<std::int64_t>{};
        for (std::size_t w = 0; w < t.worlds.size(); ++w)
            if (kind.owns.apart) check_apart(kind, s, w, t.worlds[w], images[w], v);
            else check_means(kind, s, w, t.worlds[w], v);
        check_told(kind, s, t, finished || overflowed, v);
    }
    const bool none_left = kind.goes_on(s.recovery)
                               ? t.worlds.back().left == 0
                               : t.worlds.back().ended || t.worlds.back().waiting == 0;
    if (!finished && !spoiled && !none_left && !overflowed)
        v.fail(Kind::correctness, "it stopped with ranks left: " + stopped);
    const std::int64_t end = finished ? record.epochs.back().step : 0;
    const auto parts = parts_of(record.losses, t.worlds.size(), end);
    if (finished) check_history(kind, s, t, parts, record, spoiled, v);
    if (finished) check_steps(s, t, parts, v);
    if (finished && kind.owns.apart && !spoiled) check_apart_history(t, parts, record, v);
    check_floor(kind, s, t, parts, v);
    v.worlds = static_cast<int>(t.worlds.size());
    v.updates = static_cast<int>(end);
    EventHash hash(s.seed);
    for (std::size_t w = 0; w < t.worlds.size(); ++w) {
        v.elapsed += t.worlds[w].elapsed;
        hash.add(t.worlds[w].elapsed, EventKind::rank_done, 0, t.worlds[w].event_hash,
                 static_cast<std::uint64_t>(parts[w].kept));
    }
    for (const RankLog& rank : t.worlds.back().ranks)
        for (const float x : rank.sum)
            hash.add(Nanoseconds(0), EventKind::charge, 0, std::bit_cast<std::uint32_t>(x), 0);
    v.hash = hash.value();
    return v;
}

}  // namespace gx::sim::fuzz
