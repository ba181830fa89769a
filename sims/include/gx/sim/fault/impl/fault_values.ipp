// describe(Fault): the bodies.
#pragma once

#include <string>   // sentences
#include <variant>  // visit

#include <fmt/core.h>  // numbers

#include <gx/io/duration_text.hpp>        // duration_text
#include <gx/sim/fault/fault_values.hpp>  // Fault

namespace gx::sim {

namespace detail::faults {

GX_DECL std::string text(Nanoseconds t) { return t == forever ? "forever" : duration_text(t); }
GX_DECL std::string text(const Wire& w) {
    const char* way = w.direction == Direction::out  ? ", out"
                      : w.direction == Direction::in ? ", in"
                                                     : "";
    const std::string which = w.nic < 0 ? std::string("NIC") : "NIC " + std::to_string(w.nic);
    return (w.machine >= 0 ? which + " of machine " + std::to_string(w.machine)
                           : "links of GPU " + std::to_string(w.gpu)) +
           way;
}
template <class F>
std::string where(const F& f) {
    if constexpr (requires { f.wire; }) return text(f.wire);
    else if constexpr (requires { f.which; }) return to_string(f.which);
    else if constexpr (requires { f.nic; })
        return "NIC " + std::to_string(f.nic) + " of machine " + std::to_string(f.machine);
    else if constexpr (requires { f.rank; }) return "rank " + std::to_string(f.rank);
    else if constexpr (requires { f.from; })
        return "from rank " + std::to_string(f.from) +
               (f.to < 0 ? std::string(" to any") : " to rank " + std::to_string(f.to));
    else return "checkpoint " + std::to_string(f.write);
}

/// "from 8 ms for 2 ms", "from 8 ms on" or "throughout".
GX_DECL std::string when(Nanoseconds at, Nanoseconds lasts) {
    if (lasts != forever) return "from " + text(at) + " for " + text(lasts);
    return at.count() > 0 ? "from " + text(at) + " on" : "throughout";
}
template <class F>
std::string when(const F& f) {
    return when(f.at, f.lasts);
}
/// "each NIC of machine 1": all that a wire names are hit alike.
GX_DECL std::string each(const Wire& w) {
    if (w.machine < 0) return "each link of GPU " + std::to_string(w.gpu);
    const std::string which = w.nic < 0 ? "each NIC" : "NIC " + std::to_string(w.nic);
    return which + " of machine " + std::to_string(w.machine);
}
GX_DECL std::string one_way(const Wire& w) {
    return w.direction == Direction::out  ? " outwards"
           : w.direction == Direction::in ? " inwards"
                                          : "";
}
GX_DECL std::string share(double of_one) { return fmt::format("{:g} %", 100 * of_one); }
GX_DECL std::string noticed(Nanoseconds after) {
    return after.count() > 0 ? ", which is detected after " + text(after) : "";
}
GX_DECL const char* ends(bool silent) {
    return silent ? "dies silently" : "dies and closes its connections";
}
template <class F>
std::string messages(const F& f) {
    return "from rank " + std::to_string(f.from) + " to " +
           (f.to < 0 ? std::string("any rank") : "rank " + std::to_string(f.to));
}

/// What a fault does, and when.
struct Effect {
    std::string operator()(const SlowLink& f) const {
        return each(f.wire) + " carries " + share(f.share) + " of its rate" + one_way(f.wire) +
               " " + when(f);
    }
    std::string operator()(const CutLink& f) const {
        return each(f.wire) + " carries nothing" + one_way(f.wire) + " " + when(f);
    }
    std::string operator()(const FlappingLink& f) const {
        return each(f.wire) + " is cut" + one_way(f.wire) + " for " + text(f.down) +
               " and whole for " + text(f.up) + " in turns " + when(f);
    }
    std::string operator()(const LostNic& f) const {
        return each({.machine = f.machine, .nic = f.nic}) + " fails at " + text(f.at) +
               noticed(f.unnoticed);
    }
    std::string operator()(const SlowSwitch& f) const {
        return to_string(f.which) + " carries " + share(f.share) + " of its rate on every port " +
               when(f);
    }
    std::string operator()(const LostSwitch& f) const {
        return to_string(f.which) + " fails " + when(f) + noticed(f.unnoticed);
    }
    std::string operator()(const SlowGpu& f) const {
        return fmt::format("rank {} computes {:g} times slower {}", f.rank, f.factor, when(f));
    }
    std::string operator()(const PausedGpu& f) const {
        return fmt::format("rank {} is paused {}", f.rank, when(f));
    }
    std::string operator()(const DeadGpu& f) const {
        return fmt::format("rank {} {} at {}", f.rank, ends(f.silent), text(f.at));
    }
    std::string operator()(const DeadInCollective& f) const {
        return fmt::format("rank {} {} before message {} of bucket {} in step {}", f.rank,
                           ends(f.silent), f.message, f.bucket, f.step);
    }
    std::string operator()(const StragglerBursts& f) const {
        const std::string slow =
            fmt::format("rank {} computes {:g} times slower {}", f.rank, f.factor, when(f));
        return f.times == 1 ? slow
                            : slow + fmt::format(", {} times, every {}", f.times, text(f.every));
    }
    std::string operator()(const DelayedMessages& f) const {
        return "messages " + messages(f) + " depart " + text(f.by) + " later " + when(f);
    }
    std::string operator()(const DuplicatedMessages& f) const {
        return "messages " + messages(f) + " are sent twice " + when(f);
    }
    std::string operator()(const ReorderedMessages& f) const {
        return "every other message " + messages(f) + " departs " + text(f.by) + " later " +
               when(f);
    }
    std::string operator()(const FlippedBit& f) const {
        return "one bit of a gradient " + messages(f) + " is flipped, the first from " +
               text(f.at) + " on";
    }
    std::string operator()(const NanInPayload& f) const {
        return "a gradient " + messages(f) + " ends with a NaN, the first from " + text(f.at) +
               " on";
    }
    std::string operator()(const TornCheckpoint& f) const {
        return fmt::format("checkpoint {} keeps {} of its bytes, where the program tears it",
                           f.write, share(f.share));
    }
};

}  // namespace detail::faults

GX_DECL std::string effect_of(const Fault& fault) {
    return "Fault (" + std::string(name_of(class_of(fault))) +
           "): " + std::visit(detail::faults::Effect{}, static_cast<const AnyFault&>(fault)) + ".";
}

GX_DECL std::string describe(const Fault& fault, std::size_t index) {
    return "fault " + std::to_string(index) + ", " + std::string(name_of(class_of(fault))) + ", " +
           std::visit(
               [](const auto& f) {
                   std::string text = detail::faults::where(f);
                   if constexpr (requires { f.at; }) text += ", at " + detail::faults::text(f.at);
                   return text;
               },
               fault);
}

}  // namespace gx::sim
