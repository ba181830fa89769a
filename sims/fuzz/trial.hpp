// trial<R>: runs one scenario with a reducer, and compares all it did with a serial reference.
#pragma once

#include <algorithm>   // copy, equal, max
#include <bit>         // bit_cast
#include <cmath>       // isfinite
#include <deque>       // worlds
#include <limits>      // infinity
#include <functional>  // function
#include <memory>      // unique_ptr
#include <string>      // sentences
#include <vector>      // what was seen

#include <fuzz/verdict.hpp>            // Scenario, Verdict
#include <gx/scheduler/constant.hpp>   // Constant
#include <gx/sim/elastic/elastic.hpp>  // ElasticTraining
#include <gx/sim/race/monitor.hpp>     // detect_races
#include <gx/testing/bounds.hpp>       // mean_bounds

namespace gx::sim::fuzz {

/// Log of the ranks of one world, written by their learners.
struct WorldLog {
    struct RankLog {
        std::vector<std::vector<float>> rows;             ///< what it put in, by gradient
        std::vector<std::vector<std::uint32_t>> samples;  ///< of each
        std::vector<std::vector<float>> means;            ///< what it applied, in order
    };
    std::vector<RankLog> ranks;
};

/// Gradients are made of the samples' own numbers; the state is the sum of all means, and how many.
class LoggingLearner {
public:
    template <class Rank>
    LoggingLearner(const Scenario& s, const Tampering& t, WorldLog::RankLog& log, Rank& rank,
                   int member)
        : s_(s),
          tampering_(t),
          log_(log),
          values_(s.seed, "fuzz.gradient"),
          skew_(Rng(s.seed, "fuzz.skew").at(static_cast<std::uint64_t>(member))),
          charge_([&rank](Nanoseconds time) { rank.charge(time, "gradient", Activity::compute); }),
          wrote_([&rank](std::span<const float> piece) {
              note(rank.stream(), Access::write, piece, {"backward"});
          }),
          state_(static_cast<std::size_t>(s.elements) + 1, 0.0f) {}

    [[nodiscard]] std::int64_t elements() const { return s_.elements; }

    void gradient(std::span<const std::uint32_t> samples, float, std::span<float> out,
                  GradientsReady ready) {
        log_.samples.emplace_back(samples.begin(), samples.end());
        std::vector<float> row(out.size());
        for (const std::uint32_t sample : samples)
            for (std::size_t i = 0; i < row.size(); ++i) row[i] += value(sample, i);
        if (s_.overflows && !samples.empty() && samples[0] % 5 == 0)
            row[samples[0] % row.size()] = std::numeric_limits<float>::infinity();
        std::size_t end = row.size();
        for (int piece = s_.pieces; piece-- > 0;) {
            charge_(s_.compute +
                    (s_.skew.count() == 0
                         ? Nanoseconds(0)
                         : Nanoseconds(static_cast<std::int64_t>(skew_.below(
                               draws_++, static_cast<std::uint64_t>(s_.skew.count()))))));
            const std::size_t begin =
                row.size() * static_cast<std::size_t>(piece) / static_cast<std::size_t>(s_.pieces);
            if (end > 0 && begin == 0) log_.rows.push_back(row);
            if (tampering_.ready_early) ready(begin);
            std::copy(row.begin() + static_cast<std::ptrdiff_t>(begin),
                      row.begin() + static_cast<std::ptrdiff_t>(end),
                      out.begin() + static_cast<std::ptrdiff_t>(begin));
            wrote_(out.subspan(begin, end - begin));
            end = begin;
            if (!tampering_.ready_early) ready(begin);
        }
    }
    void apply(std::span<const float> mean, float, std::int64_t) {
        log_.means.emplace_back(mean.begin(), mean.end());
        const int times = tampering_.apply_twice && restored_ ? 2 : 1;
        restored_ = false;
        for (int n = 0; n < times; ++n) {
            for (std::size_t i = 0; i < mean.size(); ++i)
                if (std::isfinite(mean[i])) state_[i] += mean[i];
            state_.back() += 1;
        }
    }
    [[nodiscard]] std::vector<float> state() const { return state_; }
    void restore(std::span<const float> state) {
        state_.assign(state.begin(), state.end());
        restored_ = true;
    }

private:
    [[nodiscard]] float value(std::uint32_t sample, std::size_t i) const {
        const auto four = values_.at(sample).bits(i / 4);
        const std::uint32_t word = four[i % 4];
        const float integer = static_cast<float>(static_cast<int>(word % 17) - 8);
        if (!s_.wide) return integer;
        constexpr std::array<float, 5> scales{0x1p-6f, 0x1p-3f, 1.0f, 0x1p3f, 0x1p6f};
        return (integer + static_cast<float>(word >> 20) * 0x1p-12f) * scales[word / 32 % 5];
    }
    const Scenario& s_;
    const Tampering& tampering_;
    WorldLog::RankLog& log_;
    Rng values_, skew_;
    std::uint64_t draws_ = 0;
    std::function<void(Nanoseconds)> charge_;
    std::function<void(std::span<const float>)> wrote_;
    std::vector<float> state_;
    bool restored_ = false;
};

namespace detail {

inline std::string at(std::size_t world, std::size_t rank, std::size_t update) {
    return "world " + std::to_string(world) + ", rank " + std::to_string(rank) + ", gradient " +
           std::to_string(update);
}

[[nodiscard]] inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](float x, float y) {
               return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
           });
}

/// Every mean that was applied against the serial one of what the ranks had put in, within the
/// bound that follows from roundings; and the same bits on every rank.
template <Element E>
void check_means(std::size_t world, const WorldLog& log, Verdict& v) {
    std::size_t most = 0;
    for (const auto& r : log.ranks) most = std::max(most, r.means.size());
    for (std::size_t g = 0; g < most; ++g) {
        testing::Rows rows;
        const std::vector<float>* first = nullptr;
        for (std::size_t r = 0; r < log.ranks.size(); ++r) {
            const auto& rank = log.ranks[r];
            if (g < rank.rows.size()) rows.push_back(rank.rows[g]);
            if (g >= rank.means.size()) continue;
            if (first && !same_bits(*first, rank.means[g]))
                v.fail(Kind::correctness, at(world, r, g) + ": replicas are not bitwise equal");
            first = &rank.means[g];
        }
        if (rows.size() != log.ranks.size())
            return v.fail(Kind::correctness, at(world, 0, g) + ": " +
                                                 std::to_string(log.ranks.size() - rows.size()) +
                                                 " ranks have put nothing in, and it is applied");
        const auto mean = testing::column_means(rows), bound = testing::mean_bounds<E>(rows);
        for (std::size_t i = 0; i < mean.size(); ++i) {
            const auto got = static_cast<double>((*first)[i]);
            const bool right =
                std::isfinite(mean[i]) ? std::abs(got - mean[i]) <= bound[i] : !std::isfinite(got);
            if (!right)
                return v.fail(Kind::correctness,
                              at(world, 0, g) + ", element " + std::to_string(i) + ": " +
                                  std::to_string(got) + " instead of " + std::to_string(mean[i]) +
                                  " within " + std::to_string(bound[i]));
        }
    }
}

/// Each sample once an epoch in the history that counts, and as many updates as it has.
inline void check_history(const Scenario& s, const ElasticRecord& record,
                          const std::deque<WorldLog>& logs, Verdict& v) {
    std::vector<int> seen(static_cast<std::size_t>(s.samples), 0);
    for (std::size_t w = 0; w < record.segments.size() && w < logs.size(); ++w)
        for (const auto& rank : logs[w].ranks)
            for (std::size_t g = 0; g < record.segments[w].updates; ++g)
                if (g < rank.samples.size())
                    for (const std::uint32_t sample : rank.samples[g]) ++seen[sample];
    for (std::size_t i = 0; i < seen.size() && record.finished; ++i)
        if (seen[i] != s.epochs)
            return v.fail(Kind::correctness, "sample " + std::to_string(i) + " was seen " +
                                                 std::to_string(seen[i]) + " times in " +
                                                 std::to_string(s.epochs) + " epochs");
    if (record.finished && !record.state.empty() &&
        record.state.back() != static_cast<float>(record.updates.size()))
        v.fail(Kind::correctness, std::to_string(record.updates.size()) +
                                      " updates count, and the final state holds " +
                                      std::to_string(static_cast<int>(record.state.back())));
}

/// Every survivor that did not finish got an error, and the world ended no sooner than it had to.
inline void check_reported(const Scenario& s, const ElasticRecord& record, Verdict& v) {
    for (const std::string& problem : record.problems) v.fail(Kind::correctness, problem);
    if (s.benign() && (record.segments.size() != 1 || !record.finished))
        v.fail(Kind::liveness,
               "no fault is lasting, and a world stopped: " + record.segments.front().ended);
    if (record.finished) return;
    const ElasticSegment& last = record.segments.back();
    if (last.lost.size() < last.core.members.size() && last.core.members.size() > 1 &&
        last.reported.empty())
        v.fail(Kind::liveness, "it stopped, and no survivor got an error");
}

/// No world was quicker than it can be: in each update that is not late, the machines compute and
/// then hear of each other; and in any, a machine receives at least one gradient's bytes.
template <class R>
void check_floor(const Scenario& s, const ElasticRecord& record, Verdict& v) {
    for (const ElasticSegment& segment : record.segments) {
        const ClusterSpec& c = segment.core.cluster;
        if (c.machines < 2) continue;
        const auto bytes = static_cast<double>(s.elements) * sizeof(typename R::wire_type::storage);
        const double carried = bytes / (c.nic_rate().count * c.machine.nics) * 0.999e9;
        const Nanoseconds heard = c.message_latency(LinkClass::net);
        const auto wire = heard + Nanoseconds(static_cast<std::int64_t>(carried));
        int early = 0;  // pieces that come after element 0, where there are more than elements
        while (s.elements * (early + 1) / s.pieces == 0) ++early;
        const Nanoseconds serial =
            std::max(heard + (s.pieces - early) * s.compute, s.pieces * s.compute);
        const Nanoseconds each = R::staleness == 0 ? std::max(wire, serial) : wire;
        if (segment.elapsed >= static_cast<std::int64_t>(segment.updates) * each) continue;
        return v.fail(Kind::correctness, std::to_string(segment.updates) + " updates took " +
                                             std::to_string(segment.elapsed.count()) +
                                             " ns, and none takes less than " +
                                             std::to_string(each.count()));
    }
}

}  // namespace detail

/// Safety: whatever breaks, nothing wrong is applied and every survivor gets an error. Liveness: on
/// the core that is left it goes on to the end, within bounds of virtual time and of waits.
template <class R>
[[nodiscard]] Verdict trial(const Scenario& s, const Tampering& tampering) {
    using Training = ElasticTraining<R, Constant>;
    ClusterOptions world{
        .seed = s.seed,
        .deadline = s.deadline,
        .faults = s.faults,
        .delivery = tampering.delivery,
        .limits = {.time = 100 * s.deadline, .waits = 200'000, .failed_waits = 5'000},
        .faults_must_fire = false,
        .detect_races = s.races};
    world.delivery.checksum = s.checksum;
    ClusterSpec cluster = s.cluster;
    if (tampering.no_profile) cluster.profile = exact;
    Training training(cluster, world,
                      {.samples = s.samples,
                       .batch = s.batch,
                       .epochs = s.epochs,
                       .seed = s.seed,
                       .bucket_elements = s.bucket_elements,
                       .scheduler = {.peak_rate = 1},
                       .recovery = s.recovery,
                       .checkpoint_every = s.checkpoint_every});
    if (s.heals) training.heal();

    Verdict v;
    std::deque<WorldLog> logs;
    const auto make = [&](auto& rank) {
        if (rank.rank() == 0) {  // rank 0 comes first in every world
            logs.emplace_back();
            logs.back().ranks.resize(static_cast<std::size_t>(rank.ranks()));
        }
        return std::make_unique<LoggingLearner>(
            s, tampering, logs.back().ranks[static_cast<std::size_t>(rank.rank())], rank,
            rank.rank());
    };
    ElasticRecord record;
    try {
        record = training.run(make);
    } catch (const Stuck& e) {
        v.fail(Kind::liveness, e.what());
        return v;
    } catch (const Race& e) {
        v.fail(Kind::correctness, e.what());
        return v;
    } catch (const std::exception& e) {
        v.fail(Kind::crash, std::string("an exception reached the caller: ") + e.what());
        return v;
    }
    bool spoiled = false;  // undetected: then the gradients are not the reducer's fault
    for (std::size_t i = 0; i < s.faults.size(); ++i) {
        if (!training.fault_fired(i)) continue;
        const FaultClass c = class_of(s.faults[i]);
        v.fired[static_cast<std::size_t>(c)] = true;
        spoiled = spoiled || (!s.checksum && (c == FaultClass::bit_flip || c == FaultClass::nan));
    }
    if (!spoiled) {
        for (std::size_t w = 0; w < logs.size(); ++w)
            detail::check_means<typename R::wire_type>(w, logs[w], v);
        detail::check_reported(s, record, v);
    }
    detail::check_history(s, record, logs, v);
    if (tampering.no_profile)
        for (ElasticSegment& segment : record.segments)
            segment.core.cluster.profile = s.cluster.profile;  // what it should have paid
    detail::check_floor<R>(s, record, v);
    v.worlds = static_cast<int>(record.segments.size());
    v.updates = static_cast<int>(record.updates.size());
    v.elapsed = record.elapsed;
    EventHash hash(s.seed);
    for (const ElasticSegment& segment : record.segments)
        hash.add(segment.elapsed, EventKind::rank_done, 0, segment.event_hash, segment.updates);
    for (const float x : record.state)
        hash.add(Nanoseconds(0), EventKind::charge, 0, std::bit_cast<std::uint32_t>(x), 0);
    v.hash = hash.value();
    return v;
}

}  // namespace gx::sim::fuzz
