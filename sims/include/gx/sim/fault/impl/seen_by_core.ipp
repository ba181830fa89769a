// Faults in a smaller cluster: the body.
#pragma once

#include <algorithm>  // find, max, min
#include <chrono>     // hours
#include <utility>    // move
#include <variant>    // visit

#include <gx/sim/fault/seen_by_core.hpp>        // as_seen_by
#include <gx/sim/topology/fabric_switches.hpp>  // FabricSwitches

namespace gx::sim {

GX_DECL FaultList as_seen_by(const Core& core, const ClusterSpec& all, Fault fault,
                             Nanoseconds passed, std::int64_t updates) {
    constexpr Nanoseconds year = std::chrono::hours(24 * 365);  // later ones are refused
    FaultList seen;
    const int gpus = core.cluster.machine.gpus;
    bool there = true;
    const auto rank = [&](int& r) {
        const auto at = std::find(core.members.begin(), core.members.end(), r);
        there = there && at != core.members.end();
        r = static_cast<int>(at - core.members.begin());
    };
    const auto machine = [&](int& m) {
        int first = -1;
        for (std::size_t i = 0; i < core.members.size() && first < 0; ++i)
            if (core.members[i] / all.machine.gpus == m) first = static_cast<int>(i);
        there = there && first >= 0 && core.cluster.machines > 1;
        m = first / gpus;
    };
    // A switch between switches keeps its number, one that machines are plugged into goes with the
    // first of them.
    const auto numbered = [&](Switch& s) {
        const FabricSwitches before(all.fabric, all.machines, all.machine.nics);
        const ClusterSpec& c = core.cluster;
        const FabricSwitches after(c.fabric, c.machines, c.machine.nics);
        there = there && c.fabric == all.fabric && after.count(s.kind) > 0;
        if (!there || s.kind == SwitchKind::rail) return;
        const int node = before.node(s);
        bool plugged = false;
        for (int m = 0; m < all.machines; ++m) plugged = plugged || before.of(m, 0) == node;
        if (!plugged) {
            there = s.index < after.count(s.kind);
            return;
        }
        for (std::size_t i = 0; i < core.members.size(); ++i)
            if (before.of(core.members[i] / all.machine.gpus, 0) == node) {
                s = after.at(after.of(static_cast<int>(i) / gpus, 0));
                return;
            }
        there = false;
    };
    std::visit(
        [&](auto& f) {
            if constexpr (requires { f.which; }) numbered(f.which);
            if constexpr (requires { f.wire; }) {
                if (f.wire.machine >= 0) machine(f.wire.machine);
                else rank(f.wire.gpu), there = there && gpus > 1;
            } else if constexpr (requires { f.machine; }) machine(f.machine);
            else if constexpr (requires { f.rank; }) rank(f.rank);
            else if constexpr (requires { f.from; }) {
                rank(f.from);
                if (f.to >= 0) rank(f.to);
            }
            if constexpr (requires { f.step; }) {
                f.step -= updates;
                there = there && f.step >= 0;
            }
            if constexpr (requires { f.unnoticed; })
                if (f.at < passed)
                    f.unnoticed = std::max(Nanoseconds(0), f.unnoticed - (passed - f.at));
            if constexpr (requires { f.every; }) {  // bursts: those that are still to come
                const auto left = [&] {
                    return f.lasts == forever ? forever : f.at + f.lasts - passed;
                };
                while (f.times > 0 && left().count() <= 0) f.at += f.every, --f.times;
                if (there && f.times > 0 && f.at < passed) {
                    seen.push_back(SlowGpu{f.rank, f.factor, Nanoseconds(0), left()});
                    f.at += f.every, --f.times;
                }
                there = there && f.times > 0;
            } else if constexpr (requires { f.lasts; }) {
                const Nanoseconds since = passed - f.at;
                if (f.at < passed && f.lasts != forever) f.lasts -= since;
                there = there && f.lasts.count() > 0;
                if constexpr (requires { f.up; })
                    if (there && f.at < passed) {
                        const bool again = f.down != forever && f.up != forever;
                        const Nanoseconds phase = again ? since % (f.down + f.up) : since;
                        if (phase < f.down) {
                            const Nanoseconds rest = f.down == forever ? forever : f.down - phase;
                            seen.push_back(
                                CutLink{f.wire, Nanoseconds(0), std::min(rest, f.lasts)});
                        }
                        if (again) {
                            const Nanoseconds next = f.down + f.up - phase;
                            f.at = passed + next;
                            if (f.lasts != forever) f.lasts -= next;
                        }
                        there = again && f.lasts.count() > 0 && f.at - passed <= year;
                    }
            }
            if constexpr (requires { f.at; }) f.at = std::max(Nanoseconds(0), f.at - passed);
        },
        fault);
    if (there) seen.push_back(std::move(fault));
    return seen;
}

}  // namespace gx::sim
