// Bodies of table.hpp.
#pragma once

#include <algorithm>  // any_of, max
#include <array>      // features
#include <cmath>      // isnan
#include <utility>    // move

#include <fmt/core.h>  // columns

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/trainer/table.hpp>

namespace gx {

GX_DECL std::string detail::table::known(double x, std::string_view form) {
    return std::isnan(x) ? "unknown" : fmt::format(fmt::runtime(form), x);
}

GX_DECL std::string detail::table::tested(double x, std::string_view form) {
    return std::isnan(x) ? "-" : known(x, form);
}

GX_DECL std::string detail::table::time(double seconds) {
    if (seconds == 0 || !(seconds < 0.9995))
        return known(seconds, "{:.1f} s");  // rounds to 1000 ms
    return seconds < 0.9995e-3 ? fmt::format("{:.3g} us", 1e6 * seconds)
                               : fmt::format("{:.3g} ms", 1e3 * seconds);
}

GX_DECL std::string detail::table::dollars(double x) {
    return x == 0 ? "-" : known(x, x < 0.01 ? "{:.2g}" : "{:.3f}");
}

GX_DECL std::string detail::table::clock_of(std::span<const RunRecord> runs) {
    for (const RunRecord& r : runs)
        if (r.clock != runs.front().clock || std::isnan(r.seconds)) return "";
    return runs.empty() ? "" : runs.front().clock + " ";
}

GX_DECL auto detail::table::groups(const Group& of, FunctionRef<std::string(std::size_t)> key)
    -> std::vector<Group> {
    std::vector<std::string> keys;
    std::vector<Group> out;
    for (const std::size_t i : of) {
        std::string its = key(i);
        const auto at = std::size_t(std::ranges::find(keys, its) - keys.begin());
        if (at == keys.size()) {
            keys.push_back(std::move(its));
            out.emplace_back();
        }
        out[at].push_back(i);
    }
    return out;
}

GX_DECL auto detail::table::all(std::size_t count) -> Group {
    Group out(count);
    for (std::size_t i = 0; i < count; ++i) out[i] = i;
    return out;
}

namespace detail::table {

/// What a name gains by a text of the record; an empty text adds nothing.
GX_DECL std::string added(const std::string& text) { return text.empty() ? "" : ", " + text; }

/// What may tell runs of one reducer apart, the shortest for readers first.
inline constexpr std::array features{
    +[](const RunRecord& r) {
        return fmt::format(" on {} rank{}", r.ranks, r.ranks == 1 ? "" : "s");
    },
    +[](const RunRecord& r) { return added(r.model); },
    +[](const RunRecord& r) { return added(r.scheduler); },
    +[](const RunRecord& r) { return added(r.optimizer); },
    +[](const RunRecord& r) { return fmt::format(", {} images a rank", r.batch_per_rank); },
    +[](const RunRecord& r) { return fmt::format(", epochs: {}", r.epochs_planned); },
    +[](const RunRecord& r) { return fmt::format(", seed {}", r.seed); },
    +[](const RunRecord& r) { return added(r.world); },
    +[](const RunRecord& r) { return added(r.timed_as.empty() ? "" : "timed as " + r.timed_as); },
    +[](const RunRecord& r) { return added(r.device); },
    +[](const RunRecord& r) { return added(r.composition); }};

/// Adds to the names of `same`, which are equal, the first feature from `feature` on that differs;
/// those that it leaves equal gain a later one.
GX_DECL void tell_apart(const std::vector<RunRecord>& runs, const Group& same, std::size_t feature,
                        std::vector<std::string>& names) {
    if (same.size() < 2) return;
    if (feature == features.size()) {
        for (const std::size_t i : same) names[i] += fmt::format(", run {}", i + 1);
        return;
    }
    const auto text = [&](std::size_t i) { return features[feature](runs[i]); };
    const std::vector<Group> parts = groups(same, text);
    for (const Group& part : parts) {
        if (parts.size() > 1)
            for (const std::size_t i : part) names[i] += text(i);
        tell_apart(runs, part, feature + 1, names);
    }
}

GX_DECL std::vector<std::string> names_of(const std::vector<RunRecord>& runs,
                                          const std::vector<std::string>& given) {
    GX_EXPECT(given.empty() || given.size() == runs.size(),
              "names of runs: give one for each run, or none");
    return given.empty() ? run_names(runs) : given;
}

GX_DECL std::string_view heading_of(const std::vector<RunRecord>& runs,
                                    const std::vector<std::string>& names) {
    for (std::size_t i = 0; i < runs.size(); ++i)
        if (names[i] != runs[i].reducer) return "run";
    return "reducer";
}

}  // namespace detail::table

GX_DECL std::vector<std::string> run_names(const std::vector<RunRecord>& runs) {
    using namespace detail::table;
    std::vector<std::string> names;
    for (const RunRecord& r : runs) names.push_back(r.reducer);
    const auto reducer = [&](std::size_t i) { return runs[i].reducer; };
    for (const Group& same : groups(all(runs.size()), reducer)) tell_apart(runs, same, 0, names);
    return names;
}

GX_DECL std::string epoch_table(const RunRecord& r) {
    using namespace detail::table;
    std::string text = fmt::format(
        "epoch   {:>9}   images/s   train loss   train %   test loss   test %   top-5 %\n",
        clock_of({&r, 1}) + "s");
    const auto is_long = [](const EpochRow& e) { return e.seconds >= 0.1; };
    const std::string_view seconds = std::ranges::any_of(r.epochs, is_long) ? "{:.2f}" : "{:.6f}";
    for (const EpochRow& e : r.epochs)
        text += fmt::format("{:5}   {:>9}   {:8.0f}   {:10.4f}   {:7.2f}   {:>9}   {:>6}   {:>7}\n",
                            e.epoch + 1, known(e.seconds, seconds), e.images_per_second,
                            e.train_loss, e.train_accuracy_pct, tested(e.test_loss, "{:.4f}"),
                            tested(e.test_accuracy_pct, "{:.2f}"),
                            tested(e.test_top5_accuracy_pct, "{:.2f}"));
    for (const std::string& warning : r.warnings) text += fmt::format("warning: {}\n", warning);
    return text;
}

GX_DECL std::string comparison_table(const std::vector<RunRecord>& runs,
                                     const std::vector<std::string>& given) {
    using namespace detail::table;
    const std::vector<std::string> names = detail::table::names_of(runs, given);
    std::size_t width = 8;
    for (const std::string& name : names) width = std::max(width, name.size());
    std::string text = fmt::format(
        "{:{}}   test accuracy   {:>12}   images/s   efficiency   exposed comm.   dollars\n",
        heading_of(runs, names), width, clock_of(runs) + "time");
    for (std::size_t i = 0; i < runs.size(); ++i) {
        const RunRecord& r = runs[i];
        text += fmt::format("{:{}}   {:>13}   {:>12}   {:>8}   {:>10}   {:>13}   {:>7}\n", names[i],
                            width, tested(r.test_accuracy_pct(), "{:.2f} %"), time(r.seconds),
                            known(r.images_per_second, "{:.0f}"),
                            known(r.scaling_efficiency_pct, "{:.1f} %"),
                            known(r.exposed_communication_pct, "{:.1f} %"), dollars(r.dollars));
    }
    for (std::size_t i = 0; i < runs.size(); ++i)
        for (const std::string& warning : runs[i].warnings)
            text += fmt::format("warning: {}: {}\n", names[i], warning);
    return text;
}

}  // namespace gx
