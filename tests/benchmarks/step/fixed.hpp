// fixed: what a step costs beside its numbers: time that does not grow with pixels, and memory.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <gx/core/error.hpp>          // Error
#include <gx/model/cifar_resnet.hpp>  // ResNet20

#include "../verdict.hpp"  // times_as_long, verdict_of
#include "clock.hpp"       // median, OtherLoad
#include "rows.hpp"        // RowSettings, rivals, row_model
#include "training.hpp"    // Training, Alone

namespace gx::bench {

/// Time of a step outside its kernels, from the same step on images of two sizes: kernels take time
/// in proportion to pixels, so that  outside = small - (large - small) / (ratio of pixels - 1).
/// The update of the weights counts as outside: it does not depend on pixels.
[[nodiscard]] constexpr double outside_kernels(double small, double large, double pixels) {
    return small - (large - small) / (pixels - 1);
}
static_assert(outside_kernels(3 + 1, 3 + 64, 64) == 3);

/// ResNet-20 of 8 images, 32x32 and 4x4, in fp32: gx's time outside kernels and PyTorch's.
inline nlohmann::json measure_outside(const RowSettings& s) {
    constexpr int batch = 8, large = 32, small = 4, steps = 20;
    constexpr double pixels = double(large * large) / (small * small), goal = 3;
    const onednn::Tuning tuning{.lanes = s.threads, .threads = s.threads};
    const auto train = [&](int side) {
        return std::make_unique<Training>(gx::graph<ResNet20>({.input = {3, side, side}}), batch,
                                          tuning, 0, ElementType::fp32);
    };
    const auto of_large = train(large), of_small = train(small);
    Alone alone(std::max(of_large->elements(), of_small->elements()));
    struct Times {
        std::vector<double> large{}, small{};
        [[nodiscard]] double outside() const {
            return outside_kernels(median(small), median(large), pixels);
        }
    };
    Times ours;
    auto peers = rivals(s, "ResNet20", batch, "fp32", {large, small});
    std::vector<Times> theirs(peers.size());
    std::vector<pid_t> children;
    for (const Rival& r : peers) children.push_back(r.peer->process());
    for (int i = 0; i < 3; ++i) of_large->step(alone), of_small->step(alone);
    const OtherLoad others(children);
    const auto append = [](std::vector<double>& to, const std::vector<double>& more) {
        to.insert(to.end(), more.begin(), more.end());
    };
    for (int round = 0; round < s.rounds; ++round) {
        for (int i = 0; i < steps; ++i) {
            ours.large.push_back(of_large->step(alone));
            ours.small.push_back(of_small->step(alone));
        }
        for (std::size_t p = 0; p < peers.size(); ++p) {
            Peer& peer = *peers[p].peer;
            append(theirs[p].large,
                   peer.expect(std::to_string(steps) + " " + std::to_string(large), steps));
            append(theirs[p].small,
                   peer.expect(std::to_string(steps) + " " + std::to_string(small), steps));
        }
    }
    const double load = others.percent(), mine = ours.outside();
    std::printf(
        "ResNet20, batch %d, fp32, %d threads, outside kernels: gx %.3f ms of a step of %.2f\n",
        batch, s.threads, 1e3 * mine, 1e3 * median(ours.large));
    nlohmann::json row{{"model", "ResNet20"},
                       {"batch", batch},
                       {"type", "fp32"},
                       {"gx_outside_kernels_ms", 1e3 * mine},
                       {"gx_step_ms", 1e3 * median(ours.large)},
                       {"peer", nullptr},
                       {"peer_outside_kernels_ms", nullptr},
                       {"peer_step_ms", nullptr},
                       {"ratio", nullptr},
                       {"goal", goal},
                       {"met", nullptr},
                       {"other_load_pct", load}};
    std::optional<double> best;
    for (std::size_t p = 0; p < peers.size(); ++p) {
        const double outside = theirs[p].outside();
        std::printf("  %s: %.3f ms of %.2f\n", peers[p].name.c_str(), 1e3 * outside,
                    1e3 * median(theirs[p].large));
        if (best && *best <= outside) continue;
        best = outside;
        row["peer"] = peers[p].name, row["peer_outside_kernels_ms"] = 1e3 * outside;
        row["peer_step_ms"] = 1e3 * median(theirs[p].large);
    }
    const std::optional<double> ratio = best ? times_as_long(*best, mine) : std::nullopt;
    if (ratio) {
        const bool met = verdict_of(ratio, goal, Bound::at_least) == Verdict::met;
        row["ratio"] = *ratio, row["met"] = met;
        std::printf("  goal: PyTorch's at least %.0f x gx's: %.1f x, %s\n", goal, *ratio,
                    met ? "met" : "MISSED");
    } else {
        std::printf("  goal: PyTorch's at least %.0f x gx's: not judged: %s\n", goal,
                    best ? "a time is not above 0, so noise was larger; measure again on a quiet "
                           "machine, with more --row-rounds"
                         : "no PyTorch was measured; --pytorch fetches it");
    }
    std::printf("  others had %.0f %% of the cores' time\n", load);
    std::fflush(stdout);
    return row;
}

/// Bytes of a line of /proc/self/status.
inline double memory(const std::string& field) {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;)
        if (double kib = 0; word == field + ":" && status >> kib) return 1024 * kib;
    throw Error("/proc/self/status has no " + field + ": peak memory can't be measured here");
}
/// What takes memory in a step, in the order of PeakMemory::parts.
inline constexpr std::array<const char*, 13> memory_parts{"activations",
                                                          "activations worked out again",
                                                          "their gradients",
                                                          "kernels' scratch memory there",
                                                          "gaps in the arena",
                                                          "parameters",
                                                          "copies of weights",
                                                          "gradient",
                                                          "gradients of other lanes",
                                                          "optimizer's state",
                                                          "kernels' scratch memory",
                                                          "images of the batch",
                                                          "all else, less what is not touched"};
/// In bytes.
struct PeakMemory {
    double peak = 0;
    std::array<double, memory_parts.size()> parts{};  ///< their sum is the peak
};
/// Peak of this process's resident memory in two steps after three, without what was resident
/// before the model was made.
inline PeakMemory peak_of_step(const std::string& name, const std::string& type, int threads) {
    const double before = memory("VmRSS");
    const RowModel model = row_model(name);
    Training training(model.graph, model.batch, {.lanes = threads, .threads = threads}, 0,
                      type == "bf16" ? ElementType::bf16 : ElementType::fp32);
    Alone alone(training.elements());
    for (int i = 0; i < 3; ++i) training.step(alone);
    std::ofstream("/proc/self/clear_refs") << "5" << std::flush;  // VmHWM begins anew
    for (int i = 0; i < 2; ++i) training.step(alone);
    PeakMemory all{.peak = memory("VmHWM") - before};
    const onednn::MemoryUse use = training.memory();
    const auto vector = static_cast<std::int64_t>(training.elements() * sizeof(float));
    const std::int64_t known[]{use.activations,
                               use.activations_again,
                               use.activation_gradients,
                               use.arena_scratch,
                               use.arena_gaps,
                               use.parameters,
                               use.weight_copies,
                               vector,
                               use.lane_gradients,
                               vector,
                               use.scratch,
                               static_cast<std::int64_t>(training.image_bytes())};
    std::ranges::copy(known, all.parts.begin());
    all.parts.back() = all.peak - std::accumulate(all.parts.begin(), all.parts.end(), 0.0);
    return all;
}

/// Peak memory of a step beside PyTorch's least, each in a process of its own. `program` prints
/// peak_of_step() for "--peak MODEL --types TYPE".
inline nlohmann::json measure_peak(const RowSettings& s, const std::string& program,
                                   const std::string& name, const std::string& type) {
    constexpr double goal = 0.6;
    const int batch = row_model(name).batch;
    const std::vector<double> bytes =
        Peer({program, "--peak", name, "--types", type}, s.threads, false)
            .expect("", 1 + static_cast<int>(memory_parts.size()));
    const double mine = bytes.front();
    std::printf("%s, batch %d, %s, peak memory of a step: gx %.0f MB\n", name.c_str(), batch,
                type.c_str(), 1e-6 * mine);
    nlohmann::json row{{"model", name},         {"batch", batch},  {"type", type},
                       {"gx_peak_bytes", mine}, {"peer", nullptr}, {"peer_peak_bytes", nullptr},
                       {"ratio", nullptr},      {"goal", goal},    {"met", nullptr}};
    for (std::size_t i = 0; i < memory_parts.size(); ++i) {
        row["gx_bytes"][memory_parts[i]] = bytes[i + 1];
        std::printf("  %7.1f MB  %s\n", 1e-6 * bytes[i + 1], memory_parts[i]);
    }
    std::fflush(stdout);
    std::optional<double> least;
    // With malloc's tuning for speed it takes more, so that its memory is compared without.
    for (const Rival& r : rivals(s, name, batch, type, {}, false)) {
        const double peak = r.peer->expect("peak", 1).front();
        std::printf("  %s: %.0f MB, gx has %.2f of it\n", r.name.c_str(), 1e-6 * peak, mine / peak);
        if (least && *least <= peak) continue;
        least = peak;
        row["peer"] = r.name, row["peer_peak_bytes"] = peak, row["ratio"] = mine / peak;
        row["met"] = mine <= goal * peak;
    }
    if (least)
        std::printf("  goal: at most %.1f of PyTorch's least: %s\n", goal,
                    row["met"].get<bool>() ? "met" : "MISSED");
    std::fflush(stdout);
    return row;
}

}  // namespace gx::bench
