// Bodies of table.hpp.
#pragma once

#include <algorithm>  // max
#include <cmath>      // isnan

#include <fmt/core.h>  // columns

#include <gx/trainer/table.hpp>

namespace gx {

GX_DECL std::string detail::table::known(double x, std::string_view form) {
    return std::isnan(x) ? "unknown" : fmt::format(fmt::runtime(form), x);
}

GX_DECL std::string detail::table::dollars(double x) { return x == 0 ? "-" : known(x, "{:.3f}"); }

GX_DECL std::string epoch_table(const RunRecord& r) {
    using detail::table::known;
    std::string text = fmt::format(
        "epoch   {:>7} s   images/s   train loss   train %   test loss   test %   top-5 %\n",
        r.clock);
    for (const EpochRow& e : r.epochs)
        text += fmt::format(
            "{:5}   {:>9}   {:8.0f}   {:10.4f}   {:7.2f}   {:9.4f}   {:6.2f}   {:7.2f}\n",
            e.epoch + 1, known(e.seconds, "{:.2f}"), e.images_per_second, e.train_loss,
            e.train_accuracy_pct, e.test_loss, e.test_accuracy_pct, e.test_top5_accuracy_pct);
    for (const std::string& warning : r.warnings) text += fmt::format("warning: {}\n", warning);
    return text;
}

GX_DECL std::string comparison_table(const std::vector<RunRecord>& runs) {
    using detail::table::dollars, detail::table::known;
    std::size_t width = 8;
    for (const RunRecord& r : runs) width = std::max(width, r.reducer.size());
    const std::string clock = runs.empty() ? "wall" : runs.front().clock;
    std::string text = fmt::format(
        "{:{}}   test accuracy   {:>7} time   images/s   efficiency   exposed comm.   dollars\n",
        "reducer", width, clock);
    for (const RunRecord& r : runs)
        text += fmt::format("{:{}}   {:11.2f} %   {:>12}   {:>8}   {:>10}   {:>13}   {:>7}\n",
                            r.reducer, width, r.test_accuracy_pct(), known(r.seconds, "{:.1f} s"),
                            known(r.images_per_second, "{:.0f}"),
                            known(r.scaling_efficiency_pct, "{:.1f} %"),
                            known(r.exposed_communication_pct, "{:.1f} %"), dollars(r.dollars));
    for (const RunRecord& r : runs)
        for (const std::string& warning : r.warnings)
            text += fmt::format("warning: {}: {}\n", r.reducer, warning);
    return text;
}

}  // namespace gx
