// A training step of ResNet-20 (32x32, batch 128, f32, two threads): gx beside LibTorch in one run.
//   gx_bench_step [--json FILE] [--rounds N] [--steps N] [--winograd 0|1]
// They take turns, some steps each, so that what disturbs the machine disturbs both. LibTorch has
// the tuning it is quickest with: channels last, 2 MiB pages, no trimming. Others in turn are gx
// with direct convolutions alone, as LibTorch's are, and gx with two ranks of one thread each,
// which average their gradients and apply the same optimizer. What favours either side is printed.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <gx/io/atomic_file.hpp>  // write_file

#include "../../../sims/support/command_line.hpp"  // run_program
#include "../machine.hpp"                          // cpu_name
#include "clock.hpp"                               // now, median, OtherLoad
#include "training.hpp"                            // Training, Alone, TwoRanks

// Who asks for memory while `counting`: gx, or oneDNN for the arguments of its calls.
namespace {
std::atomic<bool> counting{false};
std::atomic<long> ours{0}, of_library{0};
void note(const void* caller) {
    if (!counting.exchange(false)) return;  // what dladdr may allocate is not of the step
    Dl_info info{};
    const bool library =
        dladdr(caller, &info) != 0 && std::strstr(info.dli_fname, "libdnnl") != nullptr;
    (library ? of_library : ours).fetch_add(1);
    counting = true;
}
}  // namespace
[[gnu::noinline]] void* operator new(std::size_t bytes) {
    note(__builtin_return_address(0));
    if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace {

using gx::bench::median;

/// LibTorch in a process of its own: it has its own allocator, threads and oneDNN.
class Peer {
public:
    Peer(const std::filesystem::path& program, int batch, int threads) {
        int to[2], from[2];
        if (!std::filesystem::exists(program) || pipe(to) != 0 || pipe(from) != 0) return;
        child_ = fork();
        if (child_ == 0) {
            dup2(to[0], 0), dup2(from[1], 1);
            for (const int fd : {to[0], to[1], from[0], from[1]}) close(fd);
            setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
            setenv("GLIBC_TUNABLES",
                   "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=17179869184:"
                   "glibc.malloc.trim_threshold=17179869184",
                   1);
            execl(program.c_str(), program.c_str(), std::to_string(batch).c_str(), nullptr);
            _exit(127);
        }
        close(to[0]), close(from[1]);
        in_ = fdopen(to[1], "w"), out_ = fdopen(from[0], "r");
    }
    ~Peer() {
        if (in_ != nullptr) std::fclose(in_), std::fclose(out_), waitpid(child_, nullptr, 0);
    }
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;
    [[nodiscard]] bool there() const { return in_ != nullptr; }
    [[nodiscard]] pid_t process() const { return child_; }
    /// Seconds of each step; empty when the peer has died.
    std::vector<double> steps(int count) {
        std::fprintf(in_, "%d\n", count), std::fflush(in_);
        std::vector<double> all;
        for (double t = 0; count > 0 && std::fscanf(out_, "%lf", &t) == 1; --count)
            all.push_back(t);
        return all;
    }

private:
    pid_t child_ = -1;
    std::FILE *in_ = nullptr, *out_ = nullptr;
};

struct Settings {
    int rounds = 24, steps = 3;
    bool winograd = true;
    std::filesystem::path json{};
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

void measure(const Settings& settings) {
    constexpr int batch = 128, threads = 2;
    constexpr double quiet_pct = 3;  // of the cores' time that others may have unmentioned
    gx::expect_outputs({{"--json", settings.json}});
    const auto [rounds, steps, winograd, json] = settings;
    gx::onednn::Tuning tuning{.lanes = 2, .threads = threads};
    tuning.winograd = winograd;
    gx::onednn::Tuning one = tuning;
    one.threads = one.lanes = 1;  // a core each: nothing to divide a rank's batch for
    Peer peer(std::filesystem::read_symlink("/proc/self/exe").parent_path() / "gx_step_libtorch",
              batch, threads);
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
    const gx::bench::OtherLoad others(peer.process());
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
                     {"winograd", tuning.winograd},
                     {"cpu", gx::bench::cpu_name()}};
    std::printf("on %s\n", gx::bench::cpu_name().c_str());
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
    if (other_load > quiet_pct)
        std::printf(
            "the machine was busy: others had %.0f %% of its cores' time; read these figures as "
            "rough, and measure again on a quiet machine\n",
            other_load);
    if (!json.empty()) gx::write_file(json, j.dump(2) + "\n");
    if (!agree)
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
    app.add_option("--json", s.json, "also write what was measured there");
    return gx::run_program(app, argc, argv, [&] { measure(s); });
}
