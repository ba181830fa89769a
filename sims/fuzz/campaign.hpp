// campaign: runs seeds in order, counts their coverage, and stops at the first failure.
#pragma once

#include <algorithm>   // min
#include <array>       // counts
#include <cstdint>     // uint64_t
#include <exception>   // what left a trial
#include <functional>  // function
#include <string>      // text
#include <vector>      // coverage

#include <fmt/format.h>  // tables

#include <fuzz/verdict.hpp>  // Scenario, Verdict

namespace gx::sim::fuzz {

/// Coverage: number of seeds by reducer, size class and fault class that had an effect (or none),
/// and by profile and fabric.
class Coverage {
public:
    explicit Coverage(std::size_t reducers) : counts_(reducers) {}

    void add(const Scenario& s, const Verdict& v) {
        auto& row =
            counts_[static_cast<std::size_t>(s.reducer)][static_cast<std::size_t>(s.size_class)];
        bool any = false;
        for (std::size_t c = 0; c < fault_classes; ++c) {
            row[c] += v.fired[c] ? 1 : 0;
            any = any || v.fired[c];
        }
        row[fault_classes] += any ? 0 : 1;
        races_ += s.races ? 1 : 0;
        wired_ += s.cluster.machine.wiring.known ? 1 : 0;
        for (std::size_t p = 0; p < profiles.size(); ++p)
            if (has(s.cluster.profile.name.view(), profiles[p]->name.view()))
                ++stacks_[p][static_cast<std::size_t>(s.cluster.fabric.kind)];
    }
    [[nodiscard]] std::int64_t races() const { return races_; }  ///< seeds that looked for them
    [[nodiscard]] std::int64_t wired() const { return wired_; }  ///< on machines that people rent
    [[nodiscard]] static std::size_t stack_cells() { return profiles.size() * fabrics; }
    [[nodiscard]] std::size_t stacks_covered() const {
        std::size_t n = 0;
        for (const auto& profile : stacks_)
            for (const std::int64_t count : profile) n += count > 0 ? 1 : 0;
        return n;
    }
    /// A line for each profile, alone or joined with another, and a column for each fabric.
    [[nodiscard]] std::string stacks() const {
        std::string text = fmt::format("{:52}", "profile");
        for (std::size_t f = 0; f < fabrics; ++f)
            text += fmt::format(" {:>10}", to_string(static_cast<Fabric::Kind>(f)));
        text += "\n";
        for (std::size_t p = 0; p < profiles.size(); ++p) {
            text += fmt::format("{:52}", profiles[p]->name.view());
            for (const std::int64_t count : stacks_[p]) text += fmt::format(" {:>10}", count);
            text += "\n";
        }
        return text;
    }
    [[nodiscard]] std::int64_t at(std::size_t reducer, std::size_t size, std::size_t fault) const {
        return counts_[reducer][size][fault];
    }
    [[nodiscard]] std::size_t cells() const {
        return counts_.size() * size_classes * (fault_classes + 1);
    }
    [[nodiscard]] std::size_t covered() const {
        std::size_t n = 0;
        for (const auto& reducer : counts_)
            for (const auto& size : reducer)
                for (const std::int64_t count : size) n += count > 0 ? 1 : 0;
        return n;
    }
    /// A line for each reducer and size class, a column for each fault class.
    [[nodiscard]] std::string table(const std::vector<FuzzedReducer>& reducers) const {
        std::string text = fmt::format("{:52}", "reducer, elements");
        for (int c = 0; c < fault_classes; ++c)
            text += fmt::format(" {:>5}", short_name(static_cast<FaultClass>(c)));
        text += "  none\n";
        for (std::size_t r = 0; r < counts_.size(); ++r)
            for (std::size_t z = 0; z < size_classes; ++z) {
                text += fmt::format("{:52}", reducers[r].name + ", " +
                                                 std::string(name_of(static_cast<SizeClass>(z))));
                for (const std::int64_t count : counts_[r][z]) text += fmt::format(" {:>5}", count);
                text += "\n";
            }
        return text;
    }
    [[nodiscard]] static std::string_view short_name(FaultClass c) {
        constexpr std::array<std::string_view, fault_classes> names{
            "slow", "cut",  "1way",  "flap",  "nic", "swslo", "swout", "gslow", "pause",
            "dead", "coll", "strag", "delay", "dup", "order", "bit",   "nan",   "torn"};
        return names[static_cast<std::size_t>(c)];
    }

private:
    static constexpr std::size_t fabrics = 6;
    /// "nccl-2.10+tcp-aws" has nccl-2.10, and tcp-aws.
    [[nodiscard]] static bool has(std::string_view joined, std::string_view part) {
        const auto plus = joined.find('+');
        return joined == part || joined.substr(0, plus) == part ||
               (plus != joined.npos && joined.substr(plus + 1) == part);
    }
    using Row = std::array<std::int64_t, fault_classes + 1>;
    std::vector<std::array<Row, size_classes>> counts_;
    std::array<std::array<std::int64_t, fabrics>, profiles.size()> stacks_{};
    std::int64_t races_ = 0, wired_ = 0;
};

struct CampaignOptions {
    std::uint64_t first = 1, count = 100;
    std::function<bool()> enough{};  ///< checked before each seed; true ends the campaign
    std::function<void(std::uint64_t)> began{};        ///< called before each seed
    int twice_every = 16;                              ///< each so many seeds run twice; 0: none
    std::function<bool(const Scenario&)> leave_out{};  ///< scenarios to skip
};

/// Seeds `first` to `first + count - 1`.
struct SeedRange {
    std::uint64_t first = 1, count = 0;
};
/// Part `number`, from 1, of `parts` consecutive parts whose sizes differ by at most one seed.
/// Shapes: 1 <= number <= parts.
[[nodiscard]] constexpr SeedRange part_of(SeedRange all, std::uint64_t number,
                                          std::uint64_t parts) {
    const std::uint64_t least = all.count / parts, longer = all.count % parts, before = number - 1;
    return {all.first + before * least + std::min(before, longer),
            least + (before < longer ? 1 : 0)};
}

struct CampaignReport {
    std::uint64_t seeds = 0, twice = 0, failing_seed = 0;
    std::int64_t worlds = 0, updates = 0, with_faults = 0;
    Verdict failure{};    ///< kind `right`: none
    Scenario scenario{};  ///< of the last seed
    double simulated_seconds = 0;
    Coverage coverage{0};
};

/// The verdict of `f`; an exception that leaves it is a crash with its sentence.
template <class F>
[[nodiscard]] Verdict guarded(F f) {
    Verdict v;
    try {
        return f();
    } catch (const std::exception& e) {
        v.fail(Kind::crash, std::string("an exception left the harness: ") + e.what());
    } catch (...) {
        v.fail(Kind::crash, "an exception that is no std::exception left the harness");
    }
    return v;
}

/// One seed. `again`: a second time too, and both must be equal to the event and to the bit.
[[nodiscard]] inline Verdict run_seed(const Scenario& s, const FuzzedReducer& reducer,
                                      const Tampering& tampering, bool again) {
    return guarded([&] {
        Verdict v = reducer.run(s, tampering);
        if (again && v.kind == Kind::right && reducer.run(s, tampering).hash != v.hash)
            v.fail(Kind::correctness, "the same seed gave other events or other bits");
        return v;
    });
}

[[nodiscard]] inline CampaignReport campaign(const std::vector<FuzzedReducer>& from,
                                             const Tampering& tampering, const CampaignOptions& o) {
    CampaignReport report;
    report.coverage = Coverage(from.size());
    for (std::uint64_t i = 0; i < o.count && !(o.enough && o.enough()); ++i) {
        const std::uint64_t seed = o.first + i;
        if (o.began) o.began(seed);
        Scenario s{.seed = seed};
        Verdict v = guarded([&] {
            s = draw(seed, static_cast<int>(from.size()));
            return Verdict{};
        });
        if (v.kind == Kind::right && o.leave_out && o.leave_out(s)) continue;
        const auto every = static_cast<std::uint64_t>(o.twice_every);
        const bool again = every > 0 && seed % every == 0;
        if (v.kind == Kind::right)
            v = run_seed(s, from[static_cast<std::size_t>(s.reducer)], tampering, again);
        ++report.seeds;
        report.twice += again ? 1 : 0;
        report.worlds += v.worlds;
        report.updates += v.updates;
        report.with_faults += s.faults.empty() ? 0 : 1;
        report.simulated_seconds += seconds(v.elapsed);
        report.coverage.add(s, v);
        report.scenario = s;
        if (v.kind == Kind::right) continue;
        report.failing_seed = seed;
        report.failure = v;
        break;
    }
    return report;
}

/// Describes a scenario in a few lines.
[[nodiscard]] inline std::string describe(const Scenario& s,
                                          const std::vector<FuzzedReducer>& from) {
    std::string text = fmt::format(
        "seed {}: {}, {} x {} GPUs on a {}{} under {}, {} elements in buckets of {}, {} samples x "
        "{} epochs of {} a rank, {} pieces of {} ns + up to {}, {}{}, from {}, {}{}\n",
        s.seed, from[static_cast<std::size_t>(s.reducer)].name, s.cluster.machines,
        s.cluster.machine.gpus, to_string(s.cluster.fabric.kind),
        s.cluster.machine.wiring.known ? " of " + std::string(s.cluster.machine.name.view()) : "",
        s.cluster.profile.name.view(), s.elements, s.bucket_elements, s.samples, s.epochs, s.batch,
        s.pieces, s.compute.count(), s.skew.count(), s.wide ? "wide magnitudes" : "small integers",
        s.overflows ? " and infinities" : "",
        s.recovery == Recovery::survivors ? "survivors"
        : s.every_steps == 0              ? "checkpoints"
                             : fmt::format("checkpoints every {} steps", s.every_steps),
        s.checksum ? "checksums" : "no checksums", s.races ? ", looking for races" : "");
    for (const Phase& p : s.phases)
        text += fmt::format("  from epoch {}: batch {}, images of {} x {}\n", p.first_epoch,
                            p.batch, p.image_side, p.image_side);
    for (std::size_t i = 0; i < s.faults.size(); ++i)
        text += "  " + sim::describe(s.faults[i], i) + "\n";
    return text;
}

}  // namespace gx::sim::fuzz
