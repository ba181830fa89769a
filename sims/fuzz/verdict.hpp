// Verdict: what became of a scenario; and Subject, a reducer that scenarios run.
#pragma once

#include <array>        // counts
#include <cstdint>      // uint64_t
#include <string>       // sentences
#include <string_view>  // names
#include <vector>       // subjects

#include <fuzz/scenario.hpp>  // Scenario

namespace gx::sim::fuzz {

/// Each kind of failure has an exit code of its own.
enum class Kind : unsigned char {
    right,
    crash,       ///< an exception that nobody should throw, or a broken contract
    liveness,    ///< it hangs, or stops where it should go on
    correctness  ///< a wrong sum, replicas that differ, a gradient lost or applied twice, a race
};
[[nodiscard]] constexpr std::string_view name_of(Kind k) {
    constexpr std::array<std::string_view, 4> names{"right", "crash", "liveness", "correctness"};
    return names[static_cast<std::size_t>(k)];
}
[[nodiscard]] constexpr int exit_code(Kind k) { return k == Kind::right ? 0 : int(k) + 1; }

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

/// What to break besides the reducer, to see whether it is found.
struct Tampering {
    DeliveryRules delivery{};
    bool apply_twice = false;  ///< after a restart
    bool ready_early = false;  ///< a piece of a gradient is said to be ready, and then written
    bool no_profile = false;   ///< messages do not pay what their stack costs
};

struct Subject {
    std::string name;
    Verdict (*run)(const Scenario&, const Tampering&);
};

/// The reducers that campaigns draw from.
[[nodiscard]] const std::vector<Subject>& subjects();

/// A bug that is put in on purpose: a campaign must find it.
struct Plant {
    std::string name, what;
    Subject subject;
    Tampering tampering{};
};
[[nodiscard]] const std::vector<Plant>& plants();

}  // namespace gx::sim::fuzz
