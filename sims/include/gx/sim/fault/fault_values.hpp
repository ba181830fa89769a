// Fault: faults of a simulated run as values: what fails, when, and for how long.
#pragma once

#include <chrono>       // microseconds
#include <cstdint>      // int64_t
#include <string>       // sentences
#include <string_view>  // names
#include <variant>      // Fault
#include <vector>       // FaultList

#include <gx/core/decl.hpp>                     // GX_DECL
#include <gx/core/units.hpp>                    // Nanoseconds
#include <gx/sim/topology/fabric_switches.hpp>  // Switch
#include <gx/sim/world/fault_interface.hpp>     // FaultPlan, forever

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
/// Carries nothing; messages in flight wait for it. A wire with a direction is cut one way only.
struct CutLink {
    Wire wire{};
    Nanoseconds at{}, lasts = forever;
};
/// Cut for `down`, whole for `up`, and so on: at most `most_flaps` times in `lasts`, and where that
/// is forever, with at least `least_flap` from cut to cut.
struct FlappingLink {
    Wire wire{};
    Nanoseconds down{}, up{};
    Nanoseconds at{}, lasts = forever;
};
inline constexpr int most_flaps = 1'000'000;  // each change is an event
inline constexpr Nanoseconds least_flap = std::chrono::microseconds(100);
/// A NIC fails permanently, in both directions. Until it is detected, messages over it make no
/// progress. Then the machine's messages take its other NICs, and those in flight over the failed
/// one are sent again, whole. Without another NIC the machine is cut off.
/// As NCCL does when it is initialised again with the NICs that are left, but without a restart.
struct LostNic {
    int machine = -1;
    Nanoseconds at{};
    int nic = 0;
    Nanoseconds unnoticed{};
};

// ---- Switches -------------------------------------------------------------------------
// All ports of a switch: its links to other switches, and the NICs that are plugged into it.

/// Carries `share` of its rate on every port.
struct SlowSwitch {
    Switch which{};
    double share = 0.5;
    Nanoseconds at{}, lasts = forever;
};
/// Carries nothing. Until it is detected, messages over it make no progress; then they are rerouted
/// (FailoverRouting), and those in flight are sent again, whole. Machines without a route to most
/// others are cut off. When the switch is back, routes are as before.
struct LostSwitch {
    Switch which{};
    Nanoseconds at{}, lasts = forever;
    Nanoseconds unnoticed{};
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
/// The rank stops where it is. `silent`: waits for it end at their deadline; else its connections
/// close, and waits for it fail at once.
struct DeadGpu {
    int rank = -1;
    Nanoseconds at{};
    bool silent = true;
};
/// Dies as it is about to post message number `message`, from 0, of the reduction of one bucket.
/// A Pipeline reports its step and bucket; other code counts as step 0, bucket 0.
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
// The transport delivers the messages of one (from, to, channel) in order, each once. So a delayed
// message delays those after it, a message that arrives out of order waits for the earlier ones,
// and the second copy of a duplicate is discarded.

/// Messages posted meanwhile depart `by` later. to = -1: to any rank.
struct DelayedMessages {
    int from = -1, to = -1;
    Nanoseconds by{};
    Nanoseconds at{}, lasts = forever;
};
/// Messages posted meanwhile cross the network twice.
struct DuplicatedMessages {
    int from = -1, to = -1;
    Nanoseconds at{}, lasts = forever;
};
/// Every other message posted meanwhile departs `by` later, so it arrives out of order.
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

/// Checkpoint number `write`, from 0, keeps only `share` of its bytes. The program that writes them
/// tears it, as the campaign does: a cluster has no files.
struct TornCheckpoint {
    int write = 0;
    double share = 0.5;
};

using AnyFault =
    std::variant<SlowLink, CutLink, FlappingLink, LostNic, SlowSwitch, LostSwitch, SlowGpu,
                 PausedGpu, DeadGpu, DeadInCollective, StragglerBursts, DelayedMessages,
                 DuplicatedMessages, ReorderedMessages, FlippedBit, NanInPayload, TornCheckpoint>;
/// Any fault; a class of its own, so that FaultPlan can declare it without the variant.
struct Fault : AnyFault {
    using AnyFault::AnyFault;
};
using FaultList = std::vector<Fault>;

/// The classes of faults, as coverage counts them.
enum class FaultClass : unsigned char {
    link_slow,
    link_cut,
    link_one_way,
    link_flap,
    nic_lost,
    switch_slow,
    switch_lost,
    gpu_slow,
    gpu_paused,
    gpu_dead,
    dead_in_collective,
    straggler,
    delayed,
    duplicated,
    reordered,
    bit_flip,
    nan,
    torn_checkpoint
};
inline constexpr int fault_classes = 18;

[[nodiscard]] constexpr std::string_view name_of(FaultClass c) {
    constexpr std::string_view names[] = {
        "link slow",          "link cut",    "link one way",   "link flap",  "NIC lost",
        "switch slow",        "switch lost", "GPU slow",       "GPU paused", "GPU dead",
        "dead in collective", "straggler",   "delayed",        "duplicated", "reordered",
        "bit flip",           "NaN",         "torn checkpoint"};
    return names[static_cast<int>(c)];
}

[[nodiscard]] constexpr FaultClass class_of(const Fault& fault) {
    constexpr FaultClass by_index[] = {FaultClass::link_slow,      FaultClass::link_cut,
                                       FaultClass::link_flap,      FaultClass::nic_lost,
                                       FaultClass::switch_slow,    FaultClass::switch_lost,
                                       FaultClass::gpu_slow,       FaultClass::gpu_paused,
                                       FaultClass::gpu_dead,       FaultClass::dead_in_collective,
                                       FaultClass::straggler,      FaultClass::delayed,
                                       FaultClass::duplicated,     FaultClass::reordered,
                                       FaultClass::bit_flip,       FaultClass::nan,
                                       FaultClass::torn_checkpoint};
    if (const auto* cut = std::get_if<CutLink>(&fault))
        if (cut->wire.direction != Direction::both) return FaultClass::link_one_way;
    return by_index[fault.index()];
}

namespace detail::faults {

/// "forever", or duration_text.
[[nodiscard]] GX_DECL std::string text(Nanoseconds t);

}  // namespace detail::faults

/// "fault 3, GPU dead, rank 2, at 8 ms": as errors name it.
[[nodiscard]] GX_DECL std::string describe(const Fault& fault, std::size_t index);

/// What it does, to what, how much and when, as notes in a report list it:
/// "Fault (GPU slow): rank 2 computes 2 times slower from 8 ms for 5 ms."
[[nodiscard]] GX_DECL std::string effect_of(const Fault& fault);

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/fault/impl/fault_values.ipp>
#endif
