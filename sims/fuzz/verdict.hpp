// Verdict: outcome of a scenario; FuzzedReducer: a reducer under test.
#pragma once

#include <array>        // counts
#include <cstdint>      // uint64_t
#include <string>       // sentences
#include <string_view>  // names
#include <vector>       // reducers

#include <fuzz/scenario.hpp>          // Scenario
#include <gx/sim/world/matching.hpp>  // DeliveryRules

namespace gx::sim::fuzz {

/// Each kind of failure has an exit status of its own: see exit_code.
enum class Kind : unsigned char {
    right,
    crash,       ///< an unexpected exception, or a broken contract
    liveness,    ///< it hangs, or stops where it should go on
    correctness  ///< a wrong sum, replicas that differ, a gradient lost or applied twice, a race
};
[[nodiscard]] constexpr std::string_view name_of(Kind k) {
    constexpr std::array<std::string_view, 4> names{"right", "crash", "liveness", "correctness"};
    return names[static_cast<std::size_t>(k)];
}
/// Exit status of gx_fuzz; 1 and 2 are those of run_program, 5 is a seeded bug not found.
[[nodiscard]] constexpr int exit_code(Kind k) {
    constexpr std::array<int, 4> codes{0, 6, 3, 4};
    return codes[static_cast<std::size_t>(k)];
}

struct Verdict {
    Kind kind = Kind::right;
    std::string sentence{};
    std::uint64_t hash = 0;  ///< over the events and the final state
    int worlds = 0, updates = 0;
    Nanoseconds elapsed{};
    std::array<bool, fault_classes> fired{};

    void fail(Kind k, std::string why) {  // the first failure counts
        if (kind != Kind::right) return;
        kind = k;
        sentence = std::move(why);
    }
};

/// Seeded bugs outside of the reducer.
struct Tampering {
    DeliveryRules delivery{};
    bool apply_twice = false;     ///< after a restart
    bool twice_in_phase = false;  ///< after a restart, where a phase but the first begins
    bool first_batch = false;     ///< after a restart the first phase's, where that is smaller
    bool forget_place = false;    ///< a restart in a phase but the first begins its epoch anew
    bool ready_early = false;     ///< a piece of a gradient is reported ready, and then written
    bool no_profile = false;      ///< messages do not pay what their stack costs
    bool charge_reducer_kernels = true;
};

struct FuzzedReducer {
    std::string name;
    Verdict (*run)(const Scenario&, const Tampering&);
};

/// The reducers that campaigns draw from.
[[nodiscard]] const std::vector<FuzzedReducer>& reducers();

/// A seeded bug: a campaign must find it.
struct SeededBug {
    std::string name, what;
    FuzzedReducer reducer;
    Tampering tampering{};
};
[[nodiscard]] const std::vector<SeededBug>& seeded_bugs();

}  // namespace gx::sim::fuzz
