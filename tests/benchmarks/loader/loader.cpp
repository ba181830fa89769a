// Small images from memory, cropped and mirrored: what loading adds to a training step.
//   gx_bench_loader [--json FILE] [--rounds N]
// Batches of 128 images of 32x32 in colour, as CIFAR's, by InMemory<PadCrop<4>, Flip>: as floats
// that the loader normalises, and as 8-bit pixels that the device does. Beside it the step of
// ResNet-20 that takes such a batch. All on one core and by processor time, which neighbours
// lengthen least; medians of rounds in turns. Allocations are counted from the second epoch on.
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <gx/io/atomic_file.hpp>      // write_file
#include <gx/loader/in_memory.hpp>    // InMemory, PadCrop, Flip
#include <gx/loader/synthetic.hpp>    // synthetic
#include <gx/model/cifar_resnet.hpp>  // ResNet20

#include "../../../sims/support/command_line.hpp"  // run_program
#include "../../support/counted_new.hpp"           // note_allocation
#include "../machine.hpp"                          // cpu_name
#include "../step/clock.hpp"                       // median, OtherLoad
#include "../step/training.hpp"                    // Training, Alone

namespace {
std::atomic<bool> counting{false};
std::atomic<long> allocations{0};
}  // namespace
void testing_support::note_allocation(std::size_t, const void*) noexcept {
    if (counting) ++allocations;
}

namespace {

using gx::bench::median;

struct Settings {
    int rounds = 9;
    std::filesystem::path json{};
};

/// Of this process: threads of a step included.
double processor_seconds() {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

constexpr int batch = 128;
constexpr double goal = 0.001;  // of a step

/// One kind of loader, epoch after epoch.
class Loading {
public:
    Loading(const gx::Dataset& data, bool pixels)
        : loader_(data, {.batch = batch, .seed = 1, .pixels = pixels}) {}
    /// Processor seconds of a batch: the mean of an epoch.
    double epoch() {
        counting = epoch_ > 0;  // an order of the first epoch may take memory
        const double begin = processor_seconds();
        loader_.begin_epoch(epoch_++);
        const std::int64_t steps = loader_.steps_per_epoch();
        for (std::int64_t s = 0; s < steps; ++s) labels_ += loader_.next().batch.labels[0];
        const double taken = processor_seconds() - begin;
        counting = false;
        return taken / double(steps);
    }
    [[nodiscard]] long labels() const { return labels_; }  // what was read is used

private:
    gx::InMemory<gx::PadCrop<4>, gx::Flip> loader_;
    int epoch_ = 0;
    long labels_ = 0;
};

void measure(const Settings& settings) {
    gx::expect_outputs({{"--json", settings.json}});
    const gx::Split data = gx::synthetic(
        {.shape = {3, 32, 32}, .classes = 10, .train_count = 50 * batch, .test_count = 0});
    Loading floats(data.train, false), pixels(data.train, true);
    gx::bench::Training step(batch, {.lanes = 1, .threads = 1});
    gx::bench::Alone alone(step.elements());
    static_cast<void>(floats.epoch() + pixels.epoch() + step.step(alone));

    std::vector<double> of_floats, of_pixels, of_steps;
    const gx::bench::OtherLoad others({});
    for (int round = 0; round < settings.rounds; ++round) {
        of_floats.push_back(floats.epoch());
        of_pixels.push_back(pixels.epoch());
        const double begin = processor_seconds();
        static_cast<void>(step.step(alone));
        of_steps.push_back(processor_seconds() - begin);
    }
    const double load = others.percent(), of_step = median(of_steps);
    const bool none = allocations == 0;
    std::printf(
        "%d images of 3x32x32 from memory, PadCrop<4> and Flip, processor time of one core of %s\n"
        "  a step of ResNet-20 in fp32: %.1f ms; others had %.0f %% of the cores' time\n",
        batch, gx::bench::cpu_name().c_str(), 1e3 * of_step, load);
    nlohmann::json rows = nlohmann::json::array();
    for (const auto& [type, times] : {std::pair{"fp32", &of_floats}, {"uint8", &of_pixels}}) {
        const double seconds = median(*times), share = seconds / of_step;
        const bool met = share < goal && none;
        std::printf("  %-6s %7.1f us, %.2f M images/s, %.3f %% of the step: %s\n", type,
                    1e6 * seconds, 1e-6 * batch / seconds, 100 * share, met ? "met" : "MISSED");
        rows.push_back({{"model", "ResNet20"},
                        {"batch", batch},
                        {"type", type},
                        {"gx_images_per_second", batch / seconds},
                        {"peer", "a step"},
                        {"peer_images_per_second", batch / of_step},
                        {"ratio", of_step / seconds},
                        {"limit_images_per_second", nullptr},
                        {"other_load_pct", load},
                        {"share_of_step_pct", 100 * share},
                        {"goal_pct", 100 * goal},
                        {"met", met}});
    }
    std::printf("  goal: below %.1f %% of the step, no allocation after the first epoch: %ld\n",
                100 * goal, allocations.load());
    if (floats.labels() != pixels.labels())
        throw gx::Error("both kinds read the same images, and their labels differ");
    if (settings.json.empty()) return;
    const nlohmann::json all{{"benchmark", "loader"},
                             {"cpu", gx::bench::cpu_name()},
                             {"step_ms", 1e3 * of_step},
                             {"allocations", allocations.load()},
                             {"rows", rows}};
    gx::write_file(settings.json, all.dump(2) + "\n");
}

}  // namespace

int main(int argc, char** argv) {
    Settings s;
    CLI::App app("Small images from memory: what loading adds to a training step.",
                 "gx bench loader");
    app.option_defaults()->always_capture_default();
    app.add_option("--rounds", s.rounds, "turns of each")->check(gx::count_in(1, 1 << 20));
    app.add_option("--json", s.json, "also write what was measured there");
    return gx::run_program(app, argc, argv, [&] { measure(s); });
}
