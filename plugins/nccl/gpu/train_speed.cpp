// How many images a second ResNet-50 trains on GPUs, from 8-bit images in the host's memory.
// Run:     gx_nccl_train_speed [--gpus N] [--batch N] [--compute fp16,bf16,fp32] [--json FILE]
// Prints:  a line for each composition, on one GPU and, in fp16, on all. What is in a step: the
//          batch's copy, its normalisation, forward, backward, reduction, update, and the loss on
//          the host. fp32 has half the batch, and no TF32.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include <gx/cuda/device.hpp>
#include <gx/cuda/error.hpp>
#include <gx/io/atomic_file.hpp>
#include <gx/model/compute.hpp>
#include <gx/model/resnet.hpp>
#include <gx/nccl/all_reduce.hpp>
#include <gx/nccl/world.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/multi_ring.hpp>

#include "../../../sims/support/command_line.hpp"
#include "train_speed.hpp"

namespace {

using namespace gx;
using Schedule = Warmup<Poly<2>>;

/// Adds a case to the file, so that one that fails takes none along.
template <class T>
void measure_one(nlohmann::json& cases, const std::string& compute, int gpus,
                 const TrainSpeedOptions& o, const std::string& json) {
    nccl::World<cuda::Device> world({.placement = {1, gpus}});
    const TrainSpeed speed = train_speed<T>(world, o);
    fmt::print("{:72} {:2} x {:3} {:9.0f} images/s\n", speed.composition, speed.ranks, speed.batch,
               speed.images_per_second);
    nlohmann::json one{{"composition", speed.composition},
                       {"compute", compute},
                       {"gpus", speed.ranks},
                       {"batch", speed.batch},
                       {"images_per_second", speed.images_per_second}};
    if (compute == "fp32") one["tf32"] = false;
    cases.push_back(one);
    if (!json.empty()) write_file(json, nlohmann::json{{"cases", cases}}.dump(2) + "\n");
}

void measure(int gpus, const TrainSpeedOptions& o, const std::vector<std::string>& formats,
             const std::string& json) {
    expect_outputs({{"--json", json}});
    if (gpus == 0) gpus = cuda::device_count();
    nlohmann::json cases = nlohmann::json::array();
    const auto asked = [&](const char* format) {
        return std::ranges::find(formats, format) != formats.end();
    };
    if (asked("fp16"))
        measure_one<Trainer<ResNet50, MultiRing<4, fp16>, Schedule, Compute<fp16>>>(cases, "fp16",
                                                                                    1, o, json);
    if (asked("bf16"))
        measure_one<Trainer<ResNet50, MultiRing<4, bf16>, Schedule, Compute<bf16>>>(cases, "bf16",
                                                                                    1, o, json);
    if (asked("fp32"))
        measure_one<Trainer<ResNet50, MultiRing<4>, Schedule>>(
            cases, "fp32", 1, {.batch = std::max(1, o.batch / 2), .steps = o.steps}, json);
    if (gpus == 1 || !asked("fp16")) return;
    measure_one<Trainer<ResNet50, MultiRing<4, fp16>, Schedule, Compute<fp16>>>(cases, "fp16", gpus,
                                                                                o, json);
    measure_one<Trainer<ResNet50, Bucketed<MultiRing<4, fp16>, 4 << 20>, Schedule, Compute<fp16>>>(
        cases, "fp16", gpus, o, json);
    measure_one<
        Trainer<ResNet50, Bucketed<nccl::AllReduce<fp16>, 4 << 20>, Schedule, Compute<fp16>>>(
        cases, "fp16", gpus, o, json);
}

}  // namespace

int main(int argc, char** argv) {
    int gpus = 0;
    TrainSpeedOptions o;
    std::vector<std::string> formats{"fp16", "bf16", "fp32"};
    std::string json;
    CLI::App app("How many images a second ResNet-50 trains on GPUs.", "gx_nccl_train_speed");
    app.add_option("--gpus", gpus, "how many (default: all that the process sees)")
        ->check(gx::count_in(1, 64));
    app.add_option("--batch", o.batch, "images a GPU (default: 256)")->check(gx::count_in(1, 8192));
    app.add_option("--steps", o.steps, "steps that are timed (default: 30)")
        ->check(gx::count_in(1, 100000));
    app.add_option("--compute", formats, "formats to train in (default: fp16,bf16,fp32)")
        ->delimiter(',')
        ->check(CLI::IsMember({"fp16", "bf16", "fp32"}));
    app.add_option("--json", json, "also write what was measured there");
    return gx::run_program(app, argc, argv, [&] { measure(gpus, o, formats, json); });
}
