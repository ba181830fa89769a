// compare: the simulated GPU beside what was measured, row by row.
#pragma once

#include <algorithm>    // min
#include <array>        // tables
#include <cstddef>      // size_t
#include <optional>     // what was not measured
#include <string>       // what a row is
#include <string_view>  // names
#include <utility>      // move
#include <vector>       // comparisons

#include <gx/core/error.hpp>                  // Error
#include <gx/model/graph.hpp>                 // GraphBuilder
#include <gx/model/sequence.hpp>              // embedding, gelu, layer_norm
#include <gx/sim/find_model.hpp>              // find_model
#include <gx/sim/framework.hpp>               // separate_kernels
#include <gx/sim/measured/measured_file.hpp>  // MeasuredGpu
#include <gx/sim/memory.hpp>                  // memory_need
#include <gx/sim/roofline.hpp>                // TimedGraph

namespace gx::sim::measured {

/// A prediction beside a measurement, both in `unit`.
struct Comparison {
    std::string group{};  ///< what is alike: "conv2d forward fp16", "step, graph, tf32"
    std::string what{};   ///< the rest: shape, batch
    std::string_view unit{};
    double predicted = 0, measured = 0;
    [[nodiscard]] double error_pct() const { return 100 * (predicted / measured - 1); }
};

/// Every operation a kernel of its own, at the GPU's own launch cost: a step that a graph replays.
inline constexpr Framework replayed_kernels{.fused = false};

/// The operation of a row, last in a graph whose layer norm before it makes backward ask for the
/// gradient of its input. Windows are padded by half of themselves, those of avg_pool not.
/// Errors: gx::Error for a kind that is not measured on its own, or a shape that it cannot have.
[[nodiscard]] inline Graph one_operation(const OperationRow& r) {
    const bool words = r.kind == OpKind::embedding;
    GraphBuilder b("one operation", {words ? 1 : r.channels, r.height, r.width}, 2,
                   GraphBuilder::Checks::trial);
    const Window window = Window::square(r.window, r.stride, r.window / 2);
    const int x = words ? b.input() : layer_norm(b, b.input(), "before");
    switch (r.kind) {
        case OpKind::conv2d:
            (void)b.conv2d(x, {.channels = r.outputs, .window = window}, "x");
            break;
        case OpKind::linear: (void)b.linear(x, r.outputs, false, "x"); break;
        case OpKind::batch_norm: (void)b.batch_norm(x, {}, "x"); break;
        case OpKind::relu: (void)b.relu(x, "x"); break;
        case OpKind::add: (void)b.add(x, x, "x"); break;
        case OpKind::dropout: (void)b.dropout(x, 0.1, "x"); break;
        case OpKind::max_pool: (void)b.max_pool(x, window, "x"); break;
        case OpKind::avg_pool:
            (void)b.avg_pool(x, Window::square(r.window, r.stride), "x");
            break;
        case OpKind::layer_norm: (void)layer_norm(b, x, "x"); break;
        case OpKind::gelu: (void)gelu(b, x, "x"); break;
        case OpKind::softmax:
            (void)b.append({.kind = OpKind::softmax, .inputs = {x, -1}, .name = "x"}, b.shape(x));
            break;
        case OpKind::embedding: {
            const std::array<Table, 1> table{{{".weight", 30'522}}};  // BERT's words
            (void)embedding(b, x, r.channels, table, "x");
            break;
        }
        default:
            throw Error("operation '" + std::string(to_string(r.kind)) +
                        "' is not measured on its own");
    }
    if (b.trouble().fault != GraphFault::none)
        throw Error("a " + std::string(to_string(r.kind)) + " of this shape cannot be: " +
                    std::string(to_string(b.trouble().fault)));
    return std::move(b).finish();
}

namespace detail {

[[nodiscard]] inline std::string shape_of(const OperationRow& r) {
    std::string s = std::to_string(r.batch) + " x " + std::to_string(r.channels);
    if (r.height > 1 || r.width > 1)
        s += " x " + std::to_string(r.height) + " x " + std::to_string(r.width);
    if (r.outputs > 0) s += " -> " + std::to_string(r.outputs);
    if (r.window > 1) s += ", window " + std::to_string(r.window);
    return r.stride > 1 ? s + ", stride " + std::to_string(r.stride) : s;
}

class Comparer {
public:
    Comparer(const MeasuredGpu& m, const GpuSpec& gpu) : gpu_(gpu) {
        const double launch_us = 1e6 * seconds(gpu.launch);
        add("launch", "queued before", "us", launch_us, m.queued_us);
        add("launch", "in a graph", "us", launch_us, m.graph_us);
        copies(m);
        for (std::size_t i = 0; i < m.kernels.size(); ++i)
            at("kernels", i, [&] { operation(m.kernels[i]); });
        for (std::size_t i = 0; i < m.steps.size(); ++i)
            at("steps", i, [&] { step(m.steps[i]); });
    }
    std::vector<Comparison> all{};

private:
    template <class F>
    void at(const char* part, std::size_t i, const F& f) {
        try {
            f();
        } catch (const Error& e) {
            throw Error(std::string(part) + "[" + std::to_string(i) + "]: " + e.what());
        }
    }
    void add(std::string group, std::string what, std::string_view unit, double predicted,
             std::optional<double> measured) {
        if (!measured) return;
        all.push_back({std::move(group), std::move(what), unit, predicted, *measured});
    }
    /// The GPU knows its memory's rate and its copy engines; its link belongs to the machine, so
    /// what both ways move at once is predicted from the slower of the ways alone.
    void copies(const MeasuredGpu& m) {
        double slower = 0, both = 0;
        for (const CopyRow& c : m.copies) {
            if (c.way == "device")
                add("copy", "on the device", "GB/s",
                    gpu_.memory_bandwidth.count * gpu_.efficiency_fp32.memory / 1e9, c.gb_per_s);
            if (c.way == "to_gpu" || c.way == "to_host")
                slower = slower > 0 ? std::min(slower, c.gb_per_s) : c.gb_per_s;
            if (c.way == "both") both = c.gb_per_s;
        }
        if (both > 0 && slower > 0)
            add("copy", "both ways at once", "GB/s", gpu_.copy_engines > 1 ? 2 * slower : slower,
                both);
    }
    void operation(const OperationRow& r) {
        if (!r.failed.empty()) return;
        const Graph graph = one_operation(r);
        const TimedGraph timed(graph, gpu_, precision_of(r.precision), replayed_kernels);
        const KernelTime& op = timed.ops().back();
        const std::string kind(to_string(r.kind)), shape = shape_of(r);
        add(kind + " forward " + r.precision, shape, "us", 1e6 * seconds(op.forward(r.batch)),
            r.forward_us);
        add(kind + " backward " + r.precision, shape, "us", 1e6 * seconds(op.backward(r.batch)),
            r.backward_us);
    }
    void step(const StepRow& r) {
        if (!r.failed.empty()) return;
        const Graph graph = find_model(r.network).make(
            {.input = r.tokens > 0 ? ImageShape{1, r.tokens, 1} : ImageShape{}});
        const Precision precision = precision_of(r.precision);
        const std::string what = r.network + ", batch " + std::to_string(r.batch) +
                                 (r.tokens > 0 ? ", tokens " + std::to_string(r.tokens) : "");
        const auto milliseconds = [&](const Framework& f) {
            return 1e3 * seconds(TimedGraph(graph, gpu_, precision, f).step(r.batch));
        };
        add("step, graph, " + r.precision, what, "ms", milliseconds(replayed_kernels), r.graph_ms);
        add("step, eager, " + r.precision, what, "ms", milliseconds(separate_kernels), r.eager_ms);
        if (!r.memory_peak_bytes) return;
        const Bytes need = memory_need(graph, r.batch, precision).total();
        add("memory, " + r.precision, what, "GB", static_cast<double>(need.count) / 1e9,
            *r.memory_peak_bytes / 1e9);
    }

    const GpuSpec& gpu_;
};

}  // namespace detail

/// Launches, copies, operations, steps and memory, in the file's order; rows that failed or lack a
/// value are passed over. Nothing is fitted: only the constants of `gpu` are used.
///
///     operation   KernelTime of it alone, without fusion
///     step        graph: no host; eager: with the dispatch of separate_kernels
///     memory      MemoryNeed: no workspaces, nor what a framework keeps beside
///
/// Errors: gx::Error naming the row, for a network or shape that gx does not know.
[[nodiscard]] inline std::vector<Comparison> compare(const MeasuredGpu& m, const GpuSpec& gpu) {
    return detail::Comparer(m, gpu).all;
}

}  // namespace gx::sim::measured
