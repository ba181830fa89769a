// check_faults, expect_faults: the bodies.
#pragma once

#include <chrono>   // a year
#include <string>   // sentences
#include <utility>  // move
#include <variant>  // visit

#include <gx/sim/topology/fabric_switches.hpp>  // FabricSwitches
#include <gx/sim/fault/validate.hpp>            // check_faults

namespace gx::sim {

namespace detail::faults {

/// Checks one fault; sentences begin with `who`.
class Check {
public:
    Check(Problems& problems, const ClusterSpec& spec, std::string who)
        : problems_(problems), spec_(spec), who_(std::move(who)) {}

    template <class F>
    void operator()(const F& f) const {
        if constexpr (requires { f.at; }) {
            say(f.at.count() >= 0, "starts at " + text(f.at) + ": a run begins at 0");
            say(f.at <= year, "starts at " + text(f.at) + ": give a year at most");
        }
        if constexpr (requires { f.lasts; }) {
            say(f.lasts.count() > 0, "lasts " + text(f.lasts) + ": give a time above 0");
            say(bounded(f.lasts), "lasts " + text(f.lasts) + ": give a year at most, or forever");
        }
        if constexpr (requires { f.wire; }) wire(f.wire);
        if constexpr (requires { f.which; }) one_of(f.which);
        if constexpr (requires { f.unnoticed; })
            say(f.unnoticed.count() >= 0 && bounded(f.unnoticed),
                "unnoticed is " + text(f.unnoticed) + ": give a time from 0 to a year");
        if constexpr (requires { f.rank; }) rank(f.rank, "rank");
        if constexpr (requires { f.from; }) {
            rank(f.from, "from");
            if (f.to != -1) rank(f.to, "to");
            say(f.from != f.to, "is from a rank to itself, which crosses no network");
        }
        if constexpr (requires { f.share; })
            say(f.share > 0 && f.share < 1,
                "share is " + std::to_string(f.share) + ": it is above 0 and below 1");
        if constexpr (requires { f.factor; })
            say(f.factor >= 1 && f.factor <= 1e6,
                "factor is " + std::to_string(f.factor) + ": it is from 1 to a million");
        if constexpr (requires { f.by; }) {
            say(f.by.count() > 0, "by is " + text(f.by) + ": give a time above 0");
            say(f.by <= year, "by is " + text(f.by) +
                                  ": give a year at most; a message that never arrives is a "
                                  "CutLink");
        }
        own(f);
    }

private:
    static constexpr Nanoseconds year = std::chrono::hours(24 * 365);

    static constexpr int most_bursts = 10'000;  // a pass looks at all of them

    /// Sums of such times stay below the last instant of the virtual clock.
    [[nodiscard]] static bool bounded(Nanoseconds time) { return time <= year || time == forever; }

    void say(bool good, const std::string& sentence) const {
        problems_.check(good, who_ + " " + sentence);
    }
    void rank(int r, const char* field) const {
        say(r >= 0 && r < spec_.ranks(), std::string(field) + " is " + std::to_string(r) +
                                             ": this cluster has ranks 0 to " +
                                             std::to_string(spec_.ranks() - 1));
    }
    void wire(const Wire& w) const {
        say((w.machine >= 0) != (w.gpu >= 0), "names a machine or a GPU, one of the two");
        if (w.machine >= 0) {
            say(w.machine < spec_.machines, "machine is " + std::to_string(w.machine) +
                                                ": this cluster has machines 0 to " +
                                                std::to_string(spec_.machines - 1));
            say(spec_.machines > 1, "is on a NIC, and one machine alone uses none");
            const int nics = spec_.machine.nics;
            say(w.nic >= -1 && w.nic < nics,
                "nic is " + std::to_string(w.nic) + ": a machine has NICs 0 to " +
                    std::to_string(nics - 1) + ", and -1 names all of them");
        } else if (w.gpu >= 0) {
            rank(w.gpu, "gpu");
            say(spec_.machine.gpus > 1, "is on links between the GPUs of a machine that has one");
        }
    }
    void one_of(const Switch& s) const {
        const FabricSwitches all(spec_.fabric, spec_.machines, spec_.machine.nics);
        const bool star = all.count() == 0 && spec_.machines > 1;
        const std::string here =
            "the switches of this " +
            std::string(spec_.machines > 1 ? to_string(spec_.fabric.kind) : "single machine") +
            " are " + all.choices() + (star ? "; slow or cut the NICs of its machines" : "");
        if (all.count(s.kind) == 0)
            say(false, "which.kind is " + std::string(name_of(s.kind)) + ": " + here);
        else
            say(s.index >= 0 && s.index < all.count(s.kind),
                "which.index is " + std::to_string(s.index) + ": " + here);
    }
    template <class F>
    void own(const F&) const {}
    void own(const LostNic& f) const {
        wire({.machine = f.machine, .nic = f.nic});
        say(f.nic >= 0, "nic is " + std::to_string(f.nic) + ": name one NIC of the machine");
        if (f.unnoticed == forever) say(false, "unnoticed forever: that is a CutLink");
    }
    void own(const LostSwitch& f) const {
        say(f.unnoticed < f.lasts, "unnoticed for as long as it lasts: that is a SlowSwitch");
    }
    void own(const FlappingLink& f) const {
        say(f.down.count() > 0 && f.up.count() > 0, "is down and up for times above 0");
        say(bounded(f.down) && bounded(f.up), "is down for " + text(f.down) + " and up for " +
                                                  text(f.up) + ": give a year at most, or forever");
        if (f.down.count() <= 0 || f.up.count() <= 0 || f.lasts.count() <= 0) return;
        if (f.down == forever || f.up == forever) return;  // it goes down once
        const Nanoseconds period = f.down > year || f.up > year ? year : f.down + f.up;
        if (f.lasts == forever)
            say(period >= least_flap, "down and up together are " + text(period) +
                                          ": give at least " + text(least_flap) +
                                          " where lasts is forever");
        else
            say(f.lasts / period <= most_flaps,
                "goes down " + std::to_string(f.lasts / period) +
                    " times in lasts: give longer down and up, or a shorter lasts, for at most " +
                    std::to_string(most_flaps));
    }
    void own(const PausedGpu& f) const {
        say(f.lasts != forever, "lasts forever: that is a DeadGpu");
    }
    void own(const StragglerBursts& f) const {
        say(f.times > 0 && f.times <= most_bursts,
            "comes " + std::to_string(f.times) + " times: give 1 to " +
                std::to_string(most_bursts) + "; a lasting one is a SlowGpu");
        say(f.times == 1 || f.every >= f.lasts, "comes again before it has ended");
        say(f.every <= year, "every is " + text(f.every) + ": give a year at most");
        say(f.times < 1 || f.every.count() <= year.count() / f.times || f.every > year,
            "comes " + std::to_string(f.times) + " times, every " + text(f.every) +
                ": give a year in all at most");
    }
    void own(const DeadInCollective& f) const {
        say(f.step >= 0 && f.bucket >= 0 && f.message >= 0,
            "counts step, bucket and message from 0");
    }
    void own(const TornCheckpoint& f) const { say(f.write >= 0, "counts checkpoints from 0"); }

    Problems& problems_;
    const ClusterSpec& spec_;
    std::string who_;
};

}  // namespace detail::faults

GX_DECL void check_faults(std::span<const Fault> faults, const ClusterSpec& spec,
                          Problems& problems) {
    for (std::size_t i = 0; i < faults.size(); ++i)
        std::visit(detail::faults::Check(problems, spec, describe(faults[i], i) + ":"), faults[i]);
}

GX_DECL void expect_faults(std::span<const Fault> faults, const ClusterSpec& spec) {
    Problems problems;
    check_faults(faults, spec, problems);
    problems.throw_if_any("invalid faults");
}

}  // namespace gx::sim
