// rows: a training step of gx beside PyTorch's and its convolutions alone, by model and type.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <gx/core/element.hpp>            // ElementType
#include <gx/core/error.hpp>              // Error
#include <gx/model/cifar_resnet.hpp>      // ResNet20
#include <gx/model/resnet.hpp>            // ResNet50
#include <gx/onednn/detail/cpu_bf16.hpp>  // bf16_advice, cpu_bf16

#include "clock.hpp"         // median, OtherLoad
#include "convolutions.hpp"  // Convolutions
#include "goal.hpp"          // goal_of
#include "peer.hpp"          // Peer
#include "training.hpp"      // Training, Alone

namespace gx::bench {

struct RowSettings {
    std::vector<std::string> models{"ResNet20"}, types{"fp32", "bf16"};
    std::string python{};  ///< an interpreter that has PyTorch; empty: no peer
    int rounds = 12, threads = 2;
};

struct RowModel {
    Graph graph;
    int batch, steps;  ///< images of a step; steps of a turn
};
[[nodiscard]] inline RowModel row_model(const std::string& name) {
    if (name == "ResNet20") return {gx::graph<ResNet20>(), 128, 3};
    if (name == "ResNet50") return {gx::graph<ResNet50>(), 16, 1};
    throw Error("no model '" + name + "' to measure: name ResNet20 or ResNet50");
}

/// PyTorch in one of its ways, and the steps that it took.
struct Rival {
    std::string name;
    std::unique_ptr<Peer> peer;
    std::vector<double> all{}, ratios{};
};
/// Those that start; each has compiled what it compiles.
inline std::vector<Rival> rivals(const RowSettings& s, const std::string& model, int batch,
                                 const std::string& type, const std::vector<int>& sizes = {},
                                 bool tuned = true) {
    std::vector<Rival> all;
    if (s.python.empty()) return all;
    const std::vector<std::string> ways =
        type == "fp32" ? std::vector<std::string>{"fp32-eager", "fp32-compiled"}
                       : std::vector<std::string>{"autocast-eager", "autocast-compiled",
                                                  "bf16-eager", "bf16-compiled"};
    for (const std::string& way : ways) {
        std::vector<std::string> command{s.python, GX_STEP_SOURCE "/pytorch_peer.py",
                                         model,    std::to_string(batch),
                                         way,      std::to_string(s.threads)};
        for (const int size : sizes) command.push_back(std::to_string(size));
        auto peer = std::make_unique<Peer>(command, s.threads, tuned);
        const std::string version = peer->ready();
        if (version.empty()) std::printf("PyTorch does not run %s: it is left out\n", way.c_str());
        else all.push_back({"PyTorch " + version + " " + way, std::move(peer)});
    }
    return all;
}

/// What a step in `type` is to reach beside PyTorch, times: 0 where fp32 is the faster one.
inline double times_peer(const std::string& type) {
    if (type == "fp32") return 1.4;
    const onednn::detail::CpuBf16 cpu = onednn::detail::cpu_bf16();
    if (cpu.unit == onednn::detail::Bf16Unit::tiles) return 2.0;
    return cpu.intel ? 0 : 1.3;
}
/// Adds goal, bound and whether it was met to a row, and prints them.
inline void judge(nlohmann::json& row, const Measured& m) {
    const Goal goal = goal_of(m);
    row["goal"] = nullptr, row["met"] = nullptr, row["bound"] = to_string(goal.bound, m);
    row["ratio_to_limit"] = m.gx / m.convolutions;
    row["limit_holds"] = limit_holds(m);
    std::printf("  step / convolutions alone: %.2f\n", m.gx / m.convolutions);
    if (!limit_holds(m))
        std::printf(
            "  DEFECT of the measurement: the step is quicker than its convolutions alone, which "
            "therefore bound nothing\n");
    if (goal.bound == Goal::Bound::none) return;
    const bool met = m.gx >= goal.images_per_second;
    row["goal"] = goal.images_per_second, row["met"] = met;
    std::printf("  goal: %.1f img/s, %s: %s\n", goal.images_per_second,
                to_string(goal.bound, m).c_str(), met ? "met" : "MISSED");
}

/// One row, printed too; none where this CPU does not compute in the type.
inline std::optional<nlohmann::json> measure_row(const RowSettings& s, const std::string& name,
                                                 const std::string& type) {
    const RowModel model = row_model(name);
    const auto element = type == "bf16" ? ElementType::bf16 : ElementType::fp32;
    std::unique_ptr<Training> training;
    try {
        training = std::make_unique<Training>(
            model.graph, model.batch, onednn::Tuning{.lanes = s.threads, .threads = s.threads}, 0,
            element);
    } catch (const Error& e) {
        std::printf("%s in %s: %s\n", name.c_str(), type.c_str(), e.what());
        return std::nullopt;
    }
    const std::string advice =
        type == "bf16" ? onednn::detail::bf16_advice(onednn::detail::cpu_bf16()) : "";
    if (!advice.empty()) std::printf("%s\n", advice.c_str());
    Convolutions limit(model.graph, model.batch, element, s.threads);
    Alone alone(training->elements());
    auto peers = rivals(s, name, model.batch, type);
    std::vector<pid_t> children;
    for (const Rival& r : peers) children.push_back(r.peer->process());
    for (int i = 0; i < 2; ++i) training->step(alone);
    std::vector<double> ours, floor;
    const OtherLoad others(children);
    for (int round = 0; round < s.rounds; ++round) {
        std::vector<double> mine;
        for (int i = 0; i < model.steps; ++i) mine.push_back(training->step(alone));
        ours.insert(ours.end(), mine.begin(), mine.end());
        for (Rival& r : peers) {
            const auto theirs = r.peer->steps(model.steps);
            r.all.insert(r.all.end(), theirs.begin(), theirs.end());
            r.ratios.push_back(median(theirs) / median(mine));
        }
        limit.step();  // the peers' threads may still spin, and the caches hold their data
        for (int i = 0; i < model.steps; ++i) floor.push_back(limit.step());
    }
    const double load = others.percent(), batch = model.batch;
    nlohmann::json row{{"model", name},
                       {"batch", model.batch},
                       {"type", type},
                       {"gx_images_per_second", batch / median(ours)},
                       {"limit_images_per_second", batch / median(floor)},
                       {"other_load_pct", load}};
    std::printf("%s, batch %d, %s, %d threads: gx %.1f img/s; its convolutions alone %.1f\n",
                name.c_str(), model.batch, type.c_str(), s.threads, batch / median(ours),
                batch / median(floor));
    const Rival* best = nullptr;
    for (const Rival& r : peers) {
        std::printf("  %s: %.1f img/s, ratio %.2f (rounds %.2f to %.2f)\n", r.name.c_str(),
                    batch / median(r.all), median(r.ratios),
                    *std::min_element(r.ratios.begin(), r.ratios.end()),
                    *std::max_element(r.ratios.begin(), r.ratios.end()));
        if (best == nullptr || median(r.all) < median(best->all)) best = &r;
    }
    row["peer"] = nullptr, row["peer_images_per_second"] = nullptr, row["ratio"] = nullptr;
    if (best != nullptr) {
        row["peer"] = best->name;
        row["peer_images_per_second"] = batch / median(best->all);
        row["ratio"] = median(best->ratios);
    }
    judge(row, {.gx = batch / median(ours),
                .peer = best != nullptr ? batch / median(best->all) : 0,
                .convolutions = batch / median(floor),
                .times_peer = times_peer(type)});
    std::printf("  others had %.0f %% of the cores' time\n", load);
    std::fflush(stdout);
    return row;
}

}  // namespace gx::bench
