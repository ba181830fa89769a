#include <tools/measured_gpu/kinds.hpp>

#include <algorithm>  // none_of
#include <cmath>      // floor

#include <fmt/core.h>

#include <gx/sim/catalog/find_model.hpp>    // find_model
#include <gx/sim/compute/step_kernels.hpp>  // step_kernels

namespace gx::tools {

namespace {

using sim::KernelKind;
using Side = KindRow::Side;

Side side_of(const sim::KernelWork& w) {
    return {w.kernels, 1e3 * seconds(w.time), 1e-9 * w.bytes};
}
void add(Side& sum, const Side& s) {
    sum.kernels += s.kernels;
    sum.ms += s.ms;
    sum.gb += s.gb;
}

std::string number(double x, int places) { return x > 0 ? fmt::format("{:.{}f}", x, places) : "-"; }
std::string rate(const KindRow& row, const Side& s) {
    return row.product || s.ms <= 0 ? "-" : number(1e3 * s.gb / s.ms, 0);
}
std::string line_of(const KindRow& row) {
    const Side &s = row.simulated, &m = row.measured;
    const auto kernels = [](int n) { return n > 0 ? std::to_string(n) : std::string("-"); };
    return fmt::format("{:<26} {:>9} {:>9} {:>7}   {:>5} {:>5}   {:>7} {:>7}   {:>5} {:>5}\n",
                       row.name, number(s.ms, 3), number(m.ms, 3),
                       m.ms > 0 ? number(s.ms / m.ms, 2) : "-", kernels(s.kernels),
                       kernels(m.kernels), number(s.gb, 3), number(m.gb, 3), rate(row, s),
                       rate(row, m));
}

/// A share rounded down, so that a machine file's range holds it.
double rounded(double share) { return std::floor(share * 1e4) / 1e4; }

}  // namespace

std::vector<KindRow> kind_rows(const sim::MeasuredGpu& m, const sim::GpuSpec& gpu) {
    const sim::StepKernels all = sim::step_kernels(sim::find_model(m.network).make({}), gpu,
                                                   m.precision, m.batch, sim::fused_kernels);
    std::vector<KindRow> rows;
    bool together = false;  // products, in the file
    for (const sim::MeasuredGpu::Kind& kind : m.kinds) {
        KindRow row{.name = kind.name,
                    .product = kind.name.starts_with("products"),
                    .measured = {kind.kernels, kind.milliseconds, kind.dram_gigabytes}};
        const bool one = kind.name == "products";
        together = together || one;
        row.simulated = side_of(all.sum([&](KernelKind k) {
            return one ? sim::is_product(k) : sim::to_string(k) == kind.name;
        }));
        rows.push_back(row);
    }
    for (std::size_t i = 0; i < sim::kernel_kinds; ++i) {
        const auto kind = static_cast<KernelKind>(i);
        const bool absent = std::none_of(rows.begin(), rows.end(), [&](const KindRow& r) {
            return r.name == sim::to_string(kind);
        });
        if (!absent || all[kind].time.count() == 0 || (together && sim::is_product(kind))) continue;
        rows.push_back({.name = std::string(sim::to_string(kind)),
                        .product = sim::is_product(kind),
                        .simulated = side_of(all[kind])});
    }
    return rows;
}

std::string kind_table(const sim::MeasuredGpu& m, const sim::GpuSpec& gpu) {
    std::string text = fmt::format(
        "{:<26} {:^19} {:>7}   {:^11}   {:^15}   {:>8}\n{:<26} {:>9} {:>9} {:>7}   {:>5} {:>5}   "
        "{:>7} {:>7}   {:>5} {:>5}\n",
        "", "ms", "", "kernels", "GB", "GB/s", "kind", "simulated", "measured", "ratio", "sim.",
        "meas.", "sim.", "meas.", "sim.", "meas.");
    KindRow sum{.name = "all kernels"};
    for (const KindRow& row : kind_rows(m, gpu)) {
        text += line_of(row);
        add(sum.simulated, row.simulated);
        add(sum.measured, row.measured);
    }
    text += line_of(sum);
    const double ms = sum.simulated.ms, images = 1e3 * m.batch;
    if (!(m.images_per_second > 0))
        return text + fmt::format(
                          "a step of {} images: simulated {:.3f} ms, {:.0f} images/s; the "
                          "file holds no training of it\n",
                          m.batch, ms, images / ms);
    const double trained = images / m.images_per_second;
    return text + fmt::format(
                      "a step of {} images: simulated {:.3f} ms, {:.0f} images/s; trained "
                      "in {:.3f} ms, {:.0f} images/s; ratio of times {:.3f}\n",
                      m.batch, ms, images / ms, trained, m.images_per_second, ms / trained);
}

std::string gpu_field(const sim::MeasuredGpu& m, const sim::GpuSpec& fitted) {
    const std::string precision(to_string(m.precision));
    const sim::Efficiency& e = fitted.efficiency(m.precision);
    return fmt::format(
        R"("gpu": {{"like": "{}", "{}_convolution_share": {:.4f}, "{}_linear_share": {:.4f}, )"
        R"("{}_memory_share": {:.4f}}})",
        m.data_sheet.name.view(), precision, rounded(e.convolution), precision, rounded(e.linear),
        precision, rounded(e.memory));
}

}  // namespace gx::tools
