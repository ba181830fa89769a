// Bodies of table.hpp.
#pragma once

#include <algorithm>  // max
#include <cmath>      // isfinite

#include <fmt/core.h>  // columns

#include <gx/trainer/table.hpp>

namespace gx {

GX_DECL std::string epoch_table(const RunRecord& r) {
    std::string text = fmt::format(
        "epoch   {:>7} s   images/s   train loss   train %   test loss   test %\n", r.clock);
    for (const EpochRow& e : r.epochs)
        text += fmt::format("{:5}   {:9.2f}   {:8.0f}   {:10.4f}   {:7.2f}   {:9.4f}   {:6.2f}\n",
                            e.epoch + 1, e.seconds, e.images_per_second, e.train_loss,
                            e.train_accuracy_pct, e.test_loss, e.test_accuracy_pct);
    return text;
}

GX_DECL std::string comparison_table(const std::vector<RunRecord>& runs) {
    std::size_t width = 8;
    for (const RunRecord& r : runs) width = std::max(width, r.reducer.size());
    const std::string clock = runs.empty() ? "wall" : runs.front().clock;
    std::string text = fmt::format(
        "{:{}}   test accuracy   {:>7} time   images/s   efficiency   exposed comm.   dollars\n",
        "reducer", width, clock);
    for (const RunRecord& r : runs)
        text +=
            fmt::format("{:{}}   {:11.2f} %   {:10.1f} s   {:8.0f}   {}   {:11.1f} %   {:7.3f}\n",
                        r.reducer, width, r.test_accuracy_pct(), r.seconds, r.images_per_second,
                        std::isfinite(r.scaling_efficiency_pct)
                            ? fmt::format("{:8.1f} %", r.scaling_efficiency_pct)
                            : "   unknown",
                        r.exposed_communication_pct, r.dollars);
    for (const RunRecord& r : runs)
        for (const std::string& warning : r.warnings)
            text += fmt::format("warning: {}: {}\n", r.reducer, warning);
    return text;
}

}  // namespace gx
