// A training step of ResNet-20 or ResNet-50: gx beside LibTorch and PyTorch in one run.
//   gx_bench_step [--json FILE] [--rounds N] [--steps N] [--winograd 0|1]
//                 [--models ResNet20,ResNet50] [--types fp32,bf16] [--python FILE | --pytorch]
//                 [--only turns|rows|outside|memory]
// They take turns, some steps each, so that what disturbs the machine disturbs both. LibTorch has
// the tuning it is quickest with: channels last, 2 MiB pages, no trimming. Others in turn are gx
// with direct convolutions alone, as LibTorch's are, and gx with two ranks of one thread each,
// which average their gradients and apply the same optimizer. What favours either side is printed.
// Then a row for each model and type: gx, the best of PyTorch's ways (eager or compiled, autocast
// or pure bf16), and the convolutions alone, in turns; and the goal that the two make (goal.hpp).
// Last, what a step costs beside its numbers (fixed.hpp): ResNet-20's time outside kernels at batch
// 8, and ResNet-50's peak memory, beside PyTorch's.
#include <dlfcn.h>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <gx/io/atomic_file.hpp>  // write_file

#include "../../../sims/support/command_line.hpp"  // run_program
#include "../../support/counted_new.hpp"           // note_allocation
#include "../machine.hpp"                          // cpu_name
#include "../verdict.hpp"                          // verdict_of, why_not_judged
#include "clock.hpp"                               // now, median, OtherLoad
#include "fixed.hpp"                               // measure_outside, measure_peak
#include "peer.hpp"                                // Peer
#include "rows.hpp"                                // measure_row
#include "training.hpp"                            // Training, Alone, TwoRanks

// Who asks for memory while `counting`: gx, or oneDNN for the arguments of its calls.
namespace {
std::atomic<bool> counting{false};
std::atomic<long> ours{0}, of_library{0};
}  // namespace
void testing_support::note_allocation(std::size_t, const void* caller) noexcept {
    if (!counting.exchange(false)) return;  // what dladdr may allocate is not of the step
    Dl_info info{};
    const bool library =
        dladdr(caller, &info) != 0 && std::strstr(info.dli_fname, "libdnnl") != nullptr;
    (library ? of_library : ours).fetch_add(1);
    counting = true;
}

namespace {

using gx::bench::median;
using gx::bench::Peer;

struct Settings {
    int rounds = 24, steps = 3;
    bool winograd = true;
    std::filesystem::path json{};
    bool pytorch = false;
    std::vector<std::string> only{"turns", "rows", "outside", "memory"};
    std::string peak{};  // a model: print the peak memory of a step, for measure_peak
    gx::bench::RowSettings rows{};
};

/// What differs between the two programs beside the library: the side it helps, and what it is.
std::vector<std::pair<const char*, const char*>> favours(bool winograd) {
    std::vector<std::pair<const char*, const char*>> all;
    if (winograd)
        all.emplace_back("gx",
                         "3x3 convolutions of stride 1 by Winograd's F(4x4, 3x3), which need "
                         "fewer multiplications and round more; LibTorch's are direct");
    all.emplace_back("gx",
                     "LibTorch's SGD passes over each parameter tensor on its own and is not "
                     "fused; gx's is one pass over a flat vector");
    all.emplace_back("gx", "LibTorch decays every parameter, gx weights alone");
    all.emplace_back("gx",
                     "LibTorch is driven eagerly, operation by operation; its newer releases "
                     "compile the step");
    all.emplace_back("LibTorch",
                     "channels last, 2 MiB pages and an allocator that never trims, "
                     "which its users must ask for");
    return all;
}

/// The turns of ResNet-20 in fp32: gx, gx with direct convolutions, LibTorch, two ranks.
nlohmann::json measure_turns(const Settings& settings) {
    constexpr int batch = 128, threads = 2;
    constexpr double quiet_pct = 3;  // of the cores' time that others may have unmentioned
    const int rounds = settings.rounds, steps = settings.steps;
    const bool winograd = settings.winograd;
    gx::onednn::Tuning tuning{.lanes = 2, .threads = threads};
    tuning.winograd = winograd;
    gx::onednn::Tuning one = tuning;
    one.threads = one.lanes = 1;  // a core each: nothing to divide a rank's batch for
    const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    Peer peer({folder / "gx_step_libtorch", std::to_string(batch)}, threads);
    gx::onednn::Tuning plain = tuning;
    plain.winograd = false;
    gx::bench::Training rank(batch, tuning), direct(batch, plain);
    gx::bench::Alone alone(rank.elements());
    gx::bench::TwoRanks pair(batch, one);
    for (int s = 0; s < 2; ++s) rank.step(alone), direct.step(alone);
    static_cast<void>(pair.steps(2));
    if (peer.there()) static_cast<void>(peer.steps(3));

    const auto before = rank.counters();
    counting = true;
    rank.step(alone);
    counting = false;
    const auto after = rank.counters();

    std::vector<double> gx_all, direct_all, torch_all, pair_all, ratios, like, pair_ratios;
    const gx::bench::OtherLoad others({peer.process()});
    for (int r = 0; r < rounds; ++r) {
        std::vector<double> a, d;
        for (int s = 0; s < steps; ++s) a.push_back(rank.step(alone));
        for (int s = 0; s < steps; ++s) d.push_back(direct.step(alone));
        const auto b = peer.there() ? peer.steps(steps) : std::vector<double>{};
        const auto c = pair.steps(steps);
        gx_all.insert(gx_all.end(), a.begin(), a.end());
        direct_all.insert(direct_all.end(), d.begin(), d.end());
        torch_all.insert(torch_all.end(), b.begin(), b.end());
        pair_all.insert(pair_all.end(), c.begin(), c.end());
        if (!b.empty()) ratios.push_back(median(b) / median(a));
        if (!b.empty()) like.push_back(median(b) / median(d));
        pair_ratios.push_back(median(a) / median(c));
    }
    const double other_load = others.percent();
    const bool agree = pair.agree();
    nlohmann::json j{{"model", "ResNet20"},
                     {"batch", batch},
                     {"threads", threads},
                     {"winograd", tuning.winograd}};
    j["gx_images_per_second"] = batch / median(gx_all);
    j["gx_direct_images_per_second"] = batch / median(direct_all);
    j["two_rank_images_per_second"] = batch / median(pair_all);
    j["two_rank_ratio"] = median(pair_ratios);
    j["two_rank_weights_agree"] = agree;
    j["other_load_pct"] = other_load;
    j["allocations_in_step"] = ours.load() + after.allocations_in_step - before.allocations_in_step;
    j["library_argument_allocations_in_step"] = of_library.load();
    j["layout_changes_in_step"] =
        after.activation_reorders_in_step - before.activation_reorders_in_step;
    j["weight_repacks"] = after.weight_repacks - before.weight_repacks;
    j["loss"] = rank.loss();
    if (torch_all.empty()) {
        std::printf("LibTorch is missing (libtorch-dev): no ratio\n");
    } else {
        j["libtorch_images_per_second"] = batch / median(torch_all);
        j["ratio"] = median(ratios);
        std::printf(
            "ResNet-20, 32x32, batch %d, f32, %d threads: gx %.0f img/s, LibTorch %.0f img/s, "
            "ratio %.2f "
            "(rounds %.2f to %.2f)\n",
            batch, threads, batch / median(gx_all), batch / median(torch_all), median(ratios),
            *std::min_element(ratios.begin(), ratios.end()),
            *std::max_element(ratios.begin(), ratios.end()));
        j["ratio_like_for_like"] = median(like);
        std::printf(
            "like for like, direct convolutions on both sides (--winograd 0): gx %.0f img/s, ratio "
            "%.2f (rounds %.2f to %.2f)\n",
            batch / median(direct_all), median(like), *std::min_element(like.begin(), like.end()),
            *std::max_element(like.begin(), like.end()));
        for (const auto& [side, what] : favours(tuning.winograd)) {
            j["favours"][side].push_back(what);
            std::printf("favours %s: %s\n", side, what);
        }
    }
    std::printf(
        "gx: %.1f ms a step, %ld allocations, %ld layout changes, %ld weight copies, "
        "%ld argument maps of oneDNN\n",
        median(gx_all) * 1e3, j["allocations_in_step"].get<long>(),
        j["layout_changes_in_step"].get<long>(), j["weight_repacks"].get<long>(),
        of_library.load());
    std::printf(
        "two ranks of one thread and %d images each, their gradients averaged by a ring of fp32: "
        "%.0f img/s, %.2f of one process with %d threads and %d images (rounds %.2f to %.2f); "
        "momentum SGD in both\n",
        batch / 2, batch / median(pair_all), median(pair_ratios), threads, batch,
        *std::min_element(pair_ratios.begin(), pair_ratios.end()),
        *std::max_element(pair_ratios.begin(), pair_ratios.end()));
    constexpr double two_rank_goal = 0.97;
    const auto verdict =
        gx::bench::verdict_of(median(pair_ratios), two_rank_goal, gx::bench::Bound::at_least);
    j["two_rank_goal"] = two_rank_goal, j["two_rank_met"] = nullptr;
    if (verdict == gx::bench::Verdict::not_judged) {
        std::printf("  goal: at least %.2f of one process: not judged: %s\n", two_rank_goal,
                    gx::bench::why_not_judged(median(pair_ratios), ""));
    } else {
        const bool met = verdict == gx::bench::Verdict::met;
        j["two_rank_met"] = met;
        std::printf("  goal: at least %.2f of one process: %s\n", two_rank_goal,
                    met ? "met" : "MISSED");
    }
    if (other_load > quiet_pct)
        std::printf(
            "the machine was busy: others had %.0f %% of its cores' time; read these figures as "
            "rough, and measure again on a quiet machine\n",
            other_load);
    return j;
}

/// Where PyTorch was installed; installs it.
std::string fetch_pytorch() {
    const std::string folder = GX_STEP_PEERS;
    if (std::system(("'" GX_STEP_SOURCE "/pytorch.sh' '" + folder + "'").c_str()) != 0)
        throw gx::Error("without PyTorch there is nothing to compare with: leave --pytorch out");
    return folder + "/venv/bin/python";
}
void measure(Settings settings) {
    gx::expect_outputs({{"--json", settings.json}});
    if (!settings.rows.python.empty()) gx::bench::expect_interpreter(settings.rows.python);
    else if (settings.pytorch) settings.rows.python = fetch_pytorch();
    const auto has = [&](const char* part) {
        return std::ranges::find(settings.only, part) != settings.only.end();
    };
    nlohmann::json j{{"cpu", gx::bench::cpu_name()}};
    std::printf("on %s\n", gx::bench::cpu_name().c_str());
    if (has("turns")) j.update(measure_turns(settings));
    if (settings.rows.python.empty())
        std::printf("no row has PyTorch beside it: --pytorch fetches it, --python names one\n");
    std::fflush(stdout);
    j["rows"] = nlohmann::json::array();
    for (const std::string& model : settings.rows.models)
        for (const std::string& type : settings.rows.types)
            if (has("rows"))
                if (const auto row = gx::bench::measure_row(settings.rows, model, type))
                    j["rows"].push_back(*row);
    if (has("outside")) j["outside_kernels"] = gx::bench::measure_outside(settings.rows);
    if (has("memory"))
        j["peak_memory"] = gx::bench::measure_peak(
            settings.rows, std::filesystem::read_symlink("/proc/self/exe"), "ResNet50", "fp32");
    if (!settings.json.empty()) gx::write_file(settings.json, j.dump(2) + "\n");
    if (has("turns") && !j["two_rank_weights_agree"].get<bool>())
        throw std::runtime_error("the two ranks' weights differ: the reduction is at fault.");
}

}  // namespace

int main(int argc, char** argv) {
    Settings s;
    CLI::App app("One training step of ResNet-20: gx, LibTorch and two ranks.", "gx bench step");
    app.option_defaults()->always_capture_default();
    app.add_option("--rounds", s.rounds, "turns of each")->check(gx::count_in(1, 1 << 20));
    app.add_option("--steps", s.steps, "of one turn")->check(gx::count_in(1, 1 << 20));
    app.add_option("--winograd", s.winograd, "0: without Winograd's convolutions");
    app.add_option("--models", s.rows.models, "of the rows")
        ->delimiter(',')
        ->check(CLI::IsMember({"ResNet20", "ResNet50"}));
    app.add_option("--types", s.rows.types, "of the rows")
        ->delimiter(',')
        ->check(CLI::IsMember({"fp32", "bf16"}));
    app.add_option("--row-rounds", s.rows.rounds, "turns of each in a row")
        ->check(gx::count_in(1, 1 << 20));
    app.add_option("--python", s.rows.python,
                   "an interpreter that has PyTorch, a peer in the rows");
    app.add_flag("--pytorch", s.pytorch, "fetch PyTorch from PyPI for that: 5 GB, once");
    app.add_option("--json", s.json, "also write what was measured there");
    app.add_option("--only", s.only, "parts to measure")
        ->delimiter(',')
        ->check(CLI::IsMember({"turns", "rows", "outside", "memory"}));
    app.add_option("--peak", s.peak, "of a model: print the peak memory of a step")
        ->check(CLI::IsMember({"ResNet20", "ResNet50"}))
        ->group("");  // of the benchmark itself, which starts a process for it
    return gx::run_program(app, argc, argv, [&] {
        if (s.peak.empty()) return measure(s);
        const auto all = gx::bench::peak_of_step(s.peak, s.rows.types.front(), s.rows.threads);
        std::printf("%.0f\n", all.peak);
        for (const double bytes : all.parts) std::printf("%.0f\n", bytes);
    });
}
