// Faults: what breaks in a simulated run, when and for how long, as values; checked all at once.
#pragma once

#include <cmath>        // isfinite
#include <cstdint>      // int64_t
#include <span>         // lists
#include <string>       // sentences
#include <string_view>  // names
#include <type_traits>  // is_same
#include <variant>      // Fault
#include <vector>       // FaultList

#include <gx/core/problems.hpp>    // Problems
#include <gx/core/units.hpp>       // Nanoseconds
#include <gx/sim/fault_hooks.hpp>  // FaultPlan, forever
#include <gx/sim/machine.hpp>      // ClusterSpec

namespace gx::sim {

enum class Direction : unsigned char { both, out, in };

/// The links of a machine's NICs, or those that join one GPU to the others of its machine.
struct Wire {
    int machine = -1;  ///< its NICs; or
    int gpu = -1;      ///< the rank whose GPU it is
    Direction direction = Direction::both;
    int nic = -1;  ///< of the machine; -1: all of them
};

// ---- Links ----------------------------------------------------------------------------

/// Carries `share` of its rate.
struct SlowLink {
    Wire wire{};
    double share = 0.5;
    Nanoseconds at{}, lasts = forever;
};
/// Carries nothing; messages on their way wait for it. One way only: a wire with a direction.
struct CutLink {
    Wire wire{};
    Nanoseconds at{}, lasts = forever;
};
/// Cut for `down`, whole for `up`, and so on.
struct FlappingLink {
    Wire wire{};
    Nanoseconds down{}, up{};
    Nanoseconds at{}, lasts = forever;
};
/// A machine's NIC is gone, both ways and for good: with several, one rail of it.
struct LostNic {
    int machine = -1;
    Nanoseconds at{};
    int nic = 0;
};

// ---- GPUs -----------------------------------------------------------------------------

/// Computes `factor` times slower. Where several are in force the slowest counts.
struct SlowGpu {
    int rank = -1;
    double factor = 2;
    Nanoseconds at{}, lasts = forever;
};
/// Does nothing: neither computes nor goes on after a wait.
struct PausedGpu {
    int rank = -1;
    Nanoseconds at{}, lasts{};
};
/// The rank stops where it is. `silent`: nobody is told, and waits for it meet their deadline;
/// else its connections close, and waits for it end at once.
struct DeadGpu {
    int rank = -1;
    Nanoseconds at{};
    bool silent = true;
};
/// Dies as it is about to post message number `message`, from 0, of the reduction of one bucket.
/// A Pipeline says which step and bucket it reduces; other code counts as step 0, bucket 0.
struct DeadInCollective {
    int rank = -1;
    std::int64_t step = 0;
    int bucket = 0, message = 0;
    bool silent = true;
};
/// A SlowGpu for `lasts`, each `every`, `times` times.
struct StragglerBursts {
    int rank = -1;
    double factor = 4;
    Nanoseconds at{}, lasts{}, every{};
    int times = 1;
};

// ---- Messages -------------------------------------------------------------------------
// The transport delivers the messages of one (from, to, channel) in their order, each once. So a
// delayed message holds up those behind it; one that was overtaken is waited for; of a duplicate
// the second copy is discarded.

/// Those posted meanwhile set out `by` later. to = -1: to any rank.
struct DelayedMessages {
    int from = -1, to = -1;
    Nanoseconds by{};
    Nanoseconds at{}, lasts = forever;
};
/// Those posted meanwhile cross the network twice.
struct DuplicatedMessages {
    int from = -1, to = -1;
    Nanoseconds at{}, lasts = forever;
};
/// Every other one posted meanwhile sets out `by` later, so that the next overtakes it.
struct ReorderedMessages {
    int from = -1, to = -1;
    Nanoseconds by{};
    Nanoseconds at{}, lasts = forever;
};
/// One bit of the first gradient message that arrives from then on.
struct FlippedBit {
    int from = -1, to = -1;
    Nanoseconds at{};
};
/// The first gradient message that arrives from then on ends with a NaN (all bits set).
struct NanInPayload {
    int from = -1, to = -1;
    Nanoseconds at{};
};

// ---- Checkpoints ----------------------------------------------------------------------

/// Checkpoint number `write`, from 0, keeps only `share` of its bytes. For elastic training.
struct TornCheckpoint {
    int write = 0;
    double share = 0.5;
};

using AnyFault =
    std::variant<SlowLink, CutLink, FlappingLink, LostNic, SlowGpu, PausedGpu, DeadGpu,
                 DeadInCollective, StragglerBursts, DelayedMessages, DuplicatedMessages,
                 ReorderedMessages, FlippedBit, NanInPayload, TornCheckpoint>;
/// One of them; a type of its own, so that FaultPlan can name it without knowing them.
struct Fault : AnyFault {
    using AnyFault::AnyFault;
};
using FaultList = std::vector<Fault>;

/// The classes of faults, as coverage counts them.
enum class FaultClass : unsigned char {
    link_slow, link_cut, link_one_way, link_flap, nic_lost, gpu_slow, gpu_paused, gpu_dead,
    dead_in_collective, straggler, delayed, duplicated, reordered, bit_flip, nan,
    torn_checkpoint
};
inline constexpr int fault_classes = 16;

[[nodiscard]] constexpr std::string_view name_of(FaultClass c) {
    constexpr std::string_view names[] = {
        "link slow",  "link cut",   "link one way",       "link flap", "NIC lost", "GPU slow",
        "GPU paused", "GPU dead",   "dead in collective", "straggler", "delayed",  "duplicated",
        "reordered",  "bit flip",   "NaN",                "torn checkpoint"};
    return names[static_cast<int>(c)];
}

[[nodiscard]] constexpr FaultClass class_of(const Fault& fault) {
    constexpr FaultClass by_index[] = {
        FaultClass::link_slow, FaultClass::link_cut, FaultClass::link_flap, FaultClass::nic_lost,
        FaultClass::gpu_slow, FaultClass::gpu_paused, FaultClass::gpu_dead,
        FaultClass::dead_in_collective, FaultClass::straggler, FaultClass::delayed,
        FaultClass::duplicated, FaultClass::reordered, FaultClass::bit_flip, FaultClass::nan,
        FaultClass::torn_checkpoint};
    if (const auto* cut = std::get_if<CutLink>(&fault))
        if (cut->wire.direction != Direction::both) return FaultClass::link_one_way;
    return by_index[fault.index()];
}

namespace detail::faults {

inline std::string text(Nanoseconds t) {
    return t == forever ? "forever" : std::to_string(t.count()) + " ns";
}
inline std::string text(const Wire& w) {
    const char* way = w.direction == Direction::out  ? ", out"
                      : w.direction == Direction::in ? ", in"
                                                     : "";
    const std::string which = w.nic < 0 ? std::string("NIC") : "NIC " + std::to_string(w.nic);
    return (w.machine >= 0 ? which + " of machine " + std::to_string(w.machine)
                           : "links of GPU " + std::to_string(w.gpu)) + way;
}
template <class F>
inline std::string where(const F& f) {
    if constexpr (requires { f.wire; }) return text(f.wire);
    else if constexpr (requires { f.machine; }) return "machine " + std::to_string(f.machine);
    else if constexpr (requires { f.rank; }) return "rank " + std::to_string(f.rank);
    else if constexpr (requires { f.from; })
        return "from rank " + std::to_string(f.from) +
               (f.to < 0 ? std::string(" to any") : " to rank " + std::to_string(f.to));
    else return "checkpoint " + std::to_string(f.write);
}

/// Checks one fault; sentences begin with `who`.
class Check {
public:
    Check(Problems& problems, const ClusterSpec& spec, std::string who)
        : problems_(problems), spec_(spec), who_(std::move(who)) {}

    template <class F>
    void operator()(const F& f) const {
        if constexpr (requires { f.at; })
            say(f.at.count() >= 0, "starts at " + text(f.at) + ": a run begins at 0");
        if constexpr (requires { f.lasts; })
            say(f.lasts.count() > 0, "lasts " + text(f.lasts) + ": give a time above 0");
        if constexpr (requires { f.wire; }) wire(f.wire);
        if constexpr (std::is_same_v<F, LostNic>) wire({.machine = f.machine, .nic = f.nic});
        if constexpr (requires { f.rank; }) rank(f.rank, "rank");
        if constexpr (requires { f.from; }) {
            rank(f.from, "from");
            if (f.to != -1) rank(f.to, "to");
            say(f.from != f.to, "is from a rank to itself, which crosses no network");
        }
        if constexpr (requires { f.share; })
            say(f.share > 0 && f.share < 1, "share is " + std::to_string(f.share) +
                                                ": it is above 0 and below 1");
        if constexpr (requires { f.factor; })
            say(f.factor >= 1 && f.factor <= 1e6,
                "factor is " + std::to_string(f.factor) + ": it is from 1 to a million");
        if constexpr (requires { f.by; })
            say(f.by.count() > 0, "by is " + text(f.by) + ": give a time above 0");
        own(f);
    }

private:
    void say(bool good, const std::string& sentence) const {
        problems_.check(good, who_ + " " + sentence);
    }
    void rank(int r, const char* field) const {
        say(r >= 0 && r < spec_.ranks(),
            std::string(field) + " is " + std::to_string(r) + ": this cluster has ranks 0 to " +
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
            say(w.nic < nics, "nic is " + std::to_string(w.nic) + ": a machine has NICs 0 to " +
                                  std::to_string(nics - 1));
        } else if (w.gpu >= 0) {
            rank(w.gpu, "gpu");
            say(spec_.machine.gpus > 1, "is on links between the GPUs of a machine that has one");
        }
    }
    template <class F>
    void own(const F&) const {}
    void own(const FlappingLink& f) const {
        say(f.down.count() > 0 && f.up.count() > 0, "is down and up for times above 0");
    }
    void own(const PausedGpu& f) const {
        say(f.lasts != forever, "lasts forever: that is a DeadGpu");
    }
    void own(const StragglerBursts& f) const {
        say(f.times > 0, "comes at least once");
        say(f.times == 1 || f.every >= f.lasts, "comes again before it has ended");
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

/// "fault 3, GPU dead, rank 2, at 1000 ns": as errors name it.
[[nodiscard]] inline std::string describe(const Fault& fault, std::size_t index) {
    return "fault " + std::to_string(index) + ", " + std::string(name_of(class_of(fault))) + ", " +
           std::visit(
               [](const auto& f) {
                   std::string text = detail::faults::where(f);
                   if constexpr (requires { f.at; })
                       text += ", at " + detail::faults::text(f.at);
                   return text;
               },
               fault);
}

/// Adds a sentence to `problems` for everything that cannot be, fault by fault.
inline void check_faults(std::span<const Fault> faults, const ClusterSpec& spec,
                         Problems& problems) {
    for (std::size_t i = 0; i < faults.size(); ++i)
        std::visit(detail::faults::Check(problems, spec, describe(faults[i], i) + ":"), faults[i]);
}

/// Errors: throws one gx::Error that lists every fault that cannot be, and why.
inline void expect_faults(std::span<const Fault> faults, const ClusterSpec& spec) {
    Problems problems;
    check_faults(faults, spec, problems);
    problems.throw_if_any("these faults cannot be");
}

}  // namespace gx::sim

#include <gx/sim/fault_injector.hpp>  // carries them out: makes a FaultPlan of a FaultList
