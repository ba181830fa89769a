// FaultInjector: injects a list of faults into a run: links, GPUs, messages.
#pragma once

#include <algorithm>  // max, min
#include <cstddef>    // byte
#include <memory>     // make_shared, make_unique
#include <span>       // payload
#include <string>     // sentences
#include <utility>    // move
#include <variant>    // visit
#include <vector>     // windows

#include <gx/core/contract.hpp>           // GX_EXPECT
#include <gx/core/rng.hpp>                // Rng: which bit
#include <gx/core/stream.hpp>             // Operation
#include <gx/io/duration_text.hpp>        // duration_text
#include <gx/sim/des/engine.hpp>          // Engine
#include <gx/sim/fault/validate.hpp>      // check_faults
#include <gx/sim/fault/injector.hpp>      // FaultPlan
#include <gx/sim/fault/link_faults.hpp>   // LinkFaults
#include <gx/sim/fault/seen_by_core.hpp>  // as_seen_by
#include <gx/sim/world/matching.hpp>      // MessageMatcher
#include <gx/sim/topology/topology.hpp>   // Topology

namespace gx::sim {

/// The faults of one run. The cluster asks it at every charge, send, arrival and wait.
///
/// Order:  times are integers, a slowdown is kept in thousandths; which bit flips is a draw by
///         (seed, the fault's place in the list). Where several faults slow a GPU, the slowest
///         counts.
/// Errors: none; check_faults has rejected invalid faults.
class FaultInjector final : public FaultInterface {
public:
    /// `fired`: those that had an effect in an earlier world.
    FaultInjector(std::span<const Fault> faults, std::vector<bool> fired, std::uint64_t seed,
                  Engine& engine, FlowNetwork& network, const Topology& topology,
                  MessageMatcher& matcher);

    [[nodiscard]] Nanoseconds end_of(int rank, Nanoseconds work, bool compute) override;
    [[nodiscard]] Nanoseconds end_of_pause(int rank) override;
    [[nodiscard]] bool dead(int rank) const override { return at(rank).dead; }
    [[nodiscard]] bool silent(int rank) const override { return at(rank).dead && at(rank).silent; }
    [[nodiscard]] bool cut_off(int rank) const override { return links_.cut_off(rank); }
    [[nodiscard]] bool unreachable(int rank) const override { return links_.unreachable(rank); }
    void reducing(int rank, const Operation& operation) override;
    void sending(int rank) override;
    bool reroute(int from, int to, int channel, Path& path) const override {
        return links_.reroute(from, to, channel, path);
    }
    [[nodiscard]] Fate fate(int from, int to) override;
    bool corrupt(int from, int to, std::span<std::byte> message) override;
    [[nodiscard]] std::vector<std::string> unfired() const override;
    [[nodiscard]] bool fired(std::size_t fault) const override {
        GX_EXPECT(fault < fired_.size(), "one of the planned faults is asked for");
        return fired_[fault];
    }

private:
    struct Window {
        std::size_t fault;
        Nanoseconds begin, end;
        std::int64_t slow = 1000;  ///< time for 1000 of work; 0: a pause
    };
    struct Death {
        std::size_t fault;
        std::int64_t step;
        int bucket, message;
        bool silent;
    };
    struct Gpu {
        std::vector<Window> windows{};
        std::vector<Death> deaths{};  ///< in collectives
        Nanoseconds death = forever;  ///< by the clock
        Operation now{.step = 0, .bucket = 0};
        int sent = 0;  ///< gradient messages of this operation
        bool dead = false, silent = false;
    };
    struct MessageFault {
        std::size_t fault;
        int from, to;
        Nanoseconds begin, end, by;
        bool twice = false, every_other = false;
        std::uint64_t seen = 0;
        [[nodiscard]] bool meets(int f, int t, Nanoseconds now) const {
            return f == from && (to < 0 || t == to) && now >= begin && now < end;
        }
    };
    struct Spoiled {
        std::size_t fault;
        int from, to;
        Nanoseconds begin;
        bool nan = false, done = false;
    };

    Gpu& at(int rank) { return gpus_[static_cast<std::size_t>(rank)]; }
    const Gpu& at(int rank) const { return gpus_[static_cast<std::size_t>(rank)]; }
    static FaultInjector& self(void* p) { return *static_cast<FaultInjector*>(p); }
    static Nanoseconds end(Nanoseconds at, Nanoseconds lasts) {
        return lasts >= forever - at ? forever : at + lasts;
    }

    void add(std::size_t i, const SlowGpu& f) { slow(i, f.rank, f.factor, f.at, f.lasts); }
    void add(std::size_t i, const PausedGpu& f) {
        at(f.rank).windows.push_back({i, f.at, end(f.at, f.lasts), 0});
    }
    void add(std::size_t i, const StragglerBursts& f) {
        for (int n = 0; n < f.times; ++n) slow(i, f.rank, f.factor, f.at + n * f.every, f.lasts);
    }
    void add(std::size_t i, const DeadGpu& f);
    void add(std::size_t i, const DeadInCollective& f) {
        at(f.rank).deaths.push_back({i, f.step, f.bucket, f.message, f.silent});
    }
    void add(std::size_t i, const DelayedMessages& f) {
        messages_.push_back({i, f.from, f.to, f.at, end(f.at, f.lasts), f.by});
    }
    void add(std::size_t i, const DuplicatedMessages& f) {
        messages_.push_back({i, f.from, f.to, f.at, end(f.at, f.lasts), {}, true});
    }
    void add(std::size_t i, const ReorderedMessages& f) {
        messages_.push_back({i, f.from, f.to, f.at, end(f.at, f.lasts), f.by, false, true});
    }
    void add(std::size_t i, const FlippedBit& f) { spoiled_.push_back({i, f.from, f.to, f.at}); }
    void add(std::size_t i, const NanInPayload& f) {
        spoiled_.push_back({i, f.from, f.to, f.at, true});
    }
    void add(std::size_t, const TornCheckpoint&) {}

    void slow(std::size_t i, int rank, double factor, Nanoseconds at_time, Nanoseconds lasts) {
        at(rank).windows.push_back(
            {i, at_time, end(at_time, lasts), static_cast<std::int64_t>(factor * 1000 + 0.5)});
    }
    static void death_event(void* p, std::uint64_t rank);
    void kill(int rank, std::size_t fault, bool silent);

    Engine& engine_;
    MessageMatcher& matcher_;
    Rng rng_;
    std::vector<Fault> faults_;
    std::vector<bool> fired_;
    LinkFaults links_;
    std::vector<Gpu> gpus_;
    std::vector<MessageFault> messages_{};
    std::vector<Spoiled> spoiled_{};
};

GX_DECL FaultInjector::FaultInjector(std::span<const Fault> faults, std::vector<bool> fired,
                                     std::uint64_t seed, Engine& engine, FlowNetwork& network,
                                     const Topology& topology, MessageMatcher& matcher)
    : engine_(engine),
      matcher_(matcher),
      rng_(seed, "fault.payload"),
      faults_(faults.begin(), faults.end()),
      fired_(std::move(fired)),
      links_(engine, network, topology, matcher, fired_),
      gpus_(static_cast<std::size_t>(topology.spec().ranks())) {
    for (std::size_t i = 0; i < faults_.size(); ++i)
        std::visit(
            [&](const auto& f) {
                if constexpr (requires { links_.add(i, f); }) links_.add(i, f);
                else add(i, f);
            },
            faults_[i]);
}

// ---- GPUs -----------------------------------------------------------------------------

GX_DECL void FaultInjector::add(std::size_t, const DeadGpu& f) {
    Gpu& gpu = at(f.rank);
    if (f.at >= gpu.death) return;  // dead already
    gpu.death = f.at;
    engine_.at(f.at, 0, {death_event, this, static_cast<std::uint64_t>(f.rank)});
}

GX_DECL void FaultInjector::death_event(void* p, std::uint64_t which) {
    FaultInjector& me = self(p);
    const int rank = static_cast<int>(which);
    for (std::size_t i = 0; i < me.faults_.size(); ++i)
        if (const auto* f = std::get_if<DeadGpu>(&me.faults_[i]))
            if (f->rank == rank && f->at == me.engine_.now()) me.kill(rank, i, f->silent);
}

GX_DECL void FaultInjector::kill(int rank, std::size_t fault, bool silent) {
    Gpu& gpu = at(rank);
    if (gpu.dead) return;
    fired_[fault] = true;
    gpu.dead = true;
    gpu.silent = silent;
    engine_.note(EventKind::failure, rank, 1, static_cast<std::uint64_t>(silent));
    matcher_.kill(rank);
}

GX_DECL Nanoseconds FaultInjector::end_of(int rank, Nanoseconds work, bool compute) {
    Gpu& gpu = at(rank);
    Nanoseconds now = engine_.now();
    while (work.count() > 0 && now < gpu.death) {
        std::int64_t slow = 1000;
        bool paused = false;
        Nanoseconds until = gpu.death;  // the next moment at which the pace may change
        for (const Window& w : gpu.windows) {
            if (now < w.begin) until = std::min(until, w.begin);
            if (now < w.begin || now >= w.end || (w.slow > 0 && !compute)) continue;
            fired_[w.fault] = true;
            until = std::min(until, w.end);
            paused = paused || w.slow == 0;
            slow = std::max(slow, w.slow);
        }
        if (paused) {
            now = until;
            continue;
        }
        __extension__ typedef __int128 Wide;
        const auto takes = static_cast<std::int64_t>((Wide{work.count()} * slow + 999) / 1000);
        if (until == forever || takes <= (until - now).count()) return now + Nanoseconds(takes);
        work -= Nanoseconds(static_cast<std::int64_t>(Wide{(until - now).count()} * 1000 / slow));
        now = until;
    }
    return std::min(now, gpu.death);
}

GX_DECL Nanoseconds FaultInjector::end_of_pause(int rank) {
    Nanoseconds now = engine_.now();
    for (bool moved = true; moved;) {
        moved = false;
        for (const Window& w : at(rank).windows) {
            if (w.slow != 0 || now < w.begin || now >= w.end) continue;
            fired_[w.fault] = moved = true;
            now = w.end;
        }
    }
    return std::min(now, at(rank).death);
}

GX_DECL void FaultInjector::reducing(int rank, const Operation& operation) {
    Gpu& gpu = at(rank);
    if (gpu.now.step != operation.step || gpu.now.bucket != operation.bucket) gpu.sent = 0;
    gpu.now = operation;
}

GX_DECL void FaultInjector::sending(int rank) {
    Gpu& gpu = at(rank);
    const int message = gpu.sent++;
    for (const Death& d : gpu.deaths)
        if (d.step == gpu.now.step && d.bucket == gpu.now.bucket && d.message == message)
            kill(rank, d.fault, d.silent);
}

// ---- Messages -------------------------------------------------------------------------

GX_DECL FaultInjector::Fate FaultInjector::fate(int from, int to) {
    Fate fate;
    for (MessageFault& m : messages_) {
        if (!m.meets(from, to, engine_.now())) continue;
        if (m.every_other && m.seen++ % 2 == 1) continue;
        fired_[m.fault] = true;
        fate.delay = std::max(fate.delay, m.by);
        fate.twice = fate.twice || m.twice;
    }
    return fate;
}

GX_DECL bool FaultInjector::corrupt(int from, int to, std::span<std::byte> message) {
    bool changed = false;
    for (Spoiled& s : spoiled_) {
        const bool meets = from == s.from && (s.to < 0 || to == s.to) && engine_.now() >= s.begin;
        if (s.done || !meets || message.empty()) continue;
        s.done = fired_[s.fault] = changed = true;
        if (s.nan) {  // the last 4 bytes: a NaN in fp32, and in each of two fp16 or bf16
            for (std::byte& b : message.last(std::min<std::size_t>(4, message.size())))
                b = std::byte{0xff};
        } else {
            const std::uint64_t bit = rng_.below(s.fault, message.size() * 8);
            message[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
        }
    }
    return changed;
}

GX_DECL std::vector<std::string> FaultInjector::unfired() const {
    std::vector<std::string> sentences;
    for (std::size_t i = 0; i < faults_.size(); ++i)
        if (!fired_[i])
            sentences.push_back(describe(faults_[i], i) + ": it had no effect before the run " +
                                "ended at " + duration_text(engine_.now()) +
                                ": give an earlier time, or one at which it matters, or set "
                                "faults_must_fire of the cluster's options to false");
    return sentences;
}

// ---- The faults that a cluster is given -------------------------------------------------

namespace detail::faults {

class Listed final : public FaultPlan::Listed {
public:
    explicit Listed(FaultList faults) : faults_(std::move(faults)), fired_(faults_.size(), false) {}
    Listed(FaultList faults, std::vector<bool> fired)
        : faults_(std::move(faults)), fired_(std::move(fired)) {}
    [[nodiscard]] const FaultList& list() const override { return faults_; }
    [[nodiscard]] std::vector<std::string> sentences(std::size_t most) const override {
        std::vector<std::string> out;
        for (std::size_t i = 0; i < std::min(most, faults_.size()); ++i)
            out.push_back(effect_of(faults_[i]));
        if (faults_.size() > most)
            out.push_back("Faults: and " + std::to_string(faults_.size() - most) + " more.");
        return out;
    }
    void check(const ClusterSpec& spec, Problems& problems) const override {
        check_faults(faults_, spec, problems);
    }
    [[nodiscard]] bool reroutes() const override {
        for (const Fault& f : faults_)
            if (std::holds_alternative<LostNic>(f) || std::holds_alternative<LostSwitch>(f))
                return true;
        return false;
    }
    [[nodiscard]] std::unique_ptr<FaultInterface> start(std::uint64_t seed, Engine& engine,
                                                        FlowNetwork& network,
                                                        const Topology& topology,
                                                        MessageMatcher& matcher) const override {
        return std::make_unique<FaultInjector>(faults_, fired_, seed, engine, network, topology,
                                               matcher);
    }
    [[nodiscard]] FaultPlan seen_by(const Core& core, const ClusterSpec& all, Nanoseconds passed,
                                    const FaultInterface* run) const override {
        FaultList faults;
        std::vector<bool> fired;
        for (std::size_t i = 0; i < faults_.size(); ++i) {
            const bool before = run && run->fired(i);
            if (before && once(faults_[i])) continue;
            FaultList seen = as_seen_by(core, all, faults_[i], passed);
            const bool any = before || seen.size() > 1;  // one of two may come too late
            for (Fault& each : seen) {
                faults.push_back(std::move(each));
                fired.push_back(any);
            }
        }
        if (faults.empty()) return {};
        return FaultPlan(std::make_shared<const Listed>(std::move(faults), std::move(fired)));
    }

private:
    static bool once(const Fault& f) {
        return std::holds_alternative<FlippedBit>(f) || std::holds_alternative<NanInPayload>(f) ||
               std::holds_alternative<DeadInCollective>(f);
    }
    FaultList faults_;
    std::vector<bool> fired_;
};

}  // namespace detail::faults

GX_DECL std::shared_ptr<const FaultPlan::Listed> FaultPlan::listed(FaultList faults) {
    if (faults.empty()) return nullptr;
    return std::make_shared<const detail::faults::Listed>(std::move(faults));
}
GX_DECL FaultPlan::FaultPlan(std::initializer_list<Fault> faults)
    : listed_(listed(FaultList(faults))) {}
GX_DECL const FaultList& FaultPlan::list() const {
    static const FaultList none{};
    return listed_ ? listed_->list() : none;
}

}  // namespace gx::sim
