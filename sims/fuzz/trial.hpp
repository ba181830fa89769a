// trial<R>: runs one scenario with a reducer, and compares all it did with a serial reference.
#pragma once

#include <fuzz/any_reducer.hpp>  // kind_of
#include <fuzz/verdict.hpp>      // Scenario, Tampering, Verdict

namespace gx::sim::fuzz {

/// Safety: no fault leads to a wrong update, and all ranks that are left learn of it. Liveness: on
/// the core that is left it goes on to the end, within bounds of virtual time and of waits.
[[nodiscard]] Verdict trial_of(const ReducerKind& kind, const Scenario& s,
                               const Tampering& tampering);

template <Reducer R, Promise promise = Promise{}>
[[nodiscard]] Verdict trial(const Scenario& s, const Tampering& tampering) {
    return trial_of(kind_of<R, promise>(), s, tampering);
}

}  // namespace gx::sim::fuzz
