// ImageNet in 18 minutes, scaled to a laptop: small images first, then larger ones, and rectangles
// in the last tests; time to 93 % top-5 against one image size, on stand-in images that it draws.
// Run:  build/release/gx_imagenet_18 --runs 3
//
// As published (fast.ai and DIUx 2018, 'four_machines' in train.py of
// github.com/cybertronai/imagenet18: 93.05 % in 29:44 minutes): 30 epochs; images of 128, 224 and
// 288 pixels from epochs 0, 13 and 28; batches on a GPU of 256, of 512 from epoch 6, then 224 and
// 128; straight lines between rates by epoch, from epoch 13 on in proportion to the batch; crops of
// at least 8 %, 8.7 % and 50 % of the area; rectangular validation in the last phase; no decay on
// batch norm; four rings in fp16.
// Other than published: sides are an eighth, batches a sixteenth; ResNet-8, 2,000 drawn images of
// 20 classes, 2 ranks; rates of a tenth, with Nesterov's momentum; crops of at least 35 % before
// the last phase: 8 % of an image of 48 pixels shows nothing.

#include <algorithm>     // sort
#include <chrono>        // seconds
#include <cstdlib>       // getloadavg
#include <filesystem>    // folders
#include <numeric>       // midpoint
#include <optional>      // a folder that goes
#include <string>        // names
#include <system_error>  // error_code
#include <vector>        // medians

#include <fmt/format.h>  // tables

#include <gx/image/codec/recipe.hpp>           // ImageRecipe, CentreRecipe, ByEpoch
#include <gx/image/codec/recipe_decoder.hpp>   // RecipeDecoder
#include <gx/loader/decoded.hpp>               // Decoded
#include <gx/loader/formats/image_folder.hpp>  // ImageFolder
#include <gx/loader/prefetch.hpp>              // Prefetched
#include <gx/model/cifar_resnet.hpp>           // CifarResNet
#include <gx/model/cost.hpp>                   // total_cost
#include <gx/onednn/device.hpp>                // Device
#include <gx/reducer/multi_ring.hpp>           // MultiRing
#include <gx/scheduler/linear_scaling.hpp>     // LinearScaling
#include <gx/scheduler/piecewise_linear.hpp>   // PiecewiseLinear
#include <gx/threads/threads.hpp>              // Threads
#include <gx/trainer/trainer.hpp>              // Trainer

#include "../../sims/support/command_line.hpp"  // run_program
#include "../../sims/support/cpu_name.hpp"      // cpu_name
#include "../recipes/stand_in.hpp"              // draw_images, TemporaryFolder

namespace fs = std::filesystem;
using namespace gx;

using recipes::classes;
using Net = CifarResNet<8, 3, 28, classes, LastGamma::zero>;
using Rings = MultiRing<4, fp16>;
using Job = Trainer<Net, Rings, LinearScaling<PiecewiseLinear>, Sgd, Prefetched<InMemory<>>>;

struct Way {
    std::string name{};
    std::vector<Phase> phases{};
};
/// The published rates, a tenth of them, for the batch that the first phase has on both ranks:
/// LinearScaling doubles them from epoch 6 on, where the batch doubles and the rate does not.
const std::vector<PiecewiseLinear::Point> rates{{0, 0.2f},    {6, 0.4f},    {6, 0.2f},  {11, 0.2f},
                                                {13, 0.1f},   {13, 0.2f},   {16, 0.2f}, {23, 0.02f},
                                                {28, 0.002f}, {30, 0.0002f}};

/// What was done until the target was met.
struct Reached {
    int epoch = 0;  ///< 0: never
    double seconds = 0, giga_flops = 0, top1_pct = 0, top5_pct = 0;
};

Reached train(const Way& way, const fs::path& folder, double target_pct, std::uint64_t seed) {
    using Crops = ByEpoch<ImageRecipe<RandomResizedCrop>>;
    using Centres = ByEpoch<CentreRecipe>;
    const int last = way.phases.size() > 1 ? way.phases.back().first_epoch : 1 << 20;
    const CentreRecipe::Options square{.to = {100, 100}, .shorter = 114};
    CentreRecipe::Options rectangular = square;
    rectangular.rectangular = true;
    const ImageFolder train_files(folder / "train"), test_files(folder / "test");
    const Decoded images(train_files,
                         RecipeDecoder(Crops({{0, {.crop = {.area_min = 0.35}, .seed = seed}},
                                              {last, {.crop = {.area_min = 0.5}, .seed = seed}}})));
    const Decoded tests(test_files, RecipeDecoder(Centres({{0, square}, {last, rectangular}})));

    Job::Options o{.epochs = 30, .phases = way.phases, .pixels = true, .seed = seed};
    o.scheduler = {.reference_batch = 32, .next = {.points = rates}};
    o.optimizer.nesterov = true;
    Threads<2, onednn::Device> ranks;
    const RunRecord run = Job(o).train(ranks, Sources{images, tests});

    Reached out{.top1_pct = run.test_accuracy_pct(), .top5_pct = run.test_top5_accuracy_pct()};
    for (const EpochRow& e : run.epochs) {
        const PhaseRow* phase = &run.phases[0];
        for (const PhaseRow& p : run.phases)
            if (p.first_epoch <= e.epoch) phase = &p;
        const Graph graph = gx::graph<Net>({.input = {3, phase->image_height, phase->image_width}});
        out.giga_flops += total_cost(graph).flops() * double(images.info().count) / 1e9;
        out.seconds = e.seconds;
        if (e.test_top5_accuracy_pct < target_pct) continue;
        out.epoch = e.epoch + 1;
        break;
    }
    return out;
}

double median(std::vector<double> x) {
    std::ranges::sort(x);
    return std::midpoint(x[(x.size() - 1) / 2], x[x.size() / 2]);
}

void compare(int runs, double target_pct, const fs::path& folder) {
    recipes::draw_images(folder);
    double load = 0;
    getloadavg(&load, 1);
    fmt::print("{}; 2 ranks; load of others before the first run: {:.1f}\n", cpu_name(), load);
    const Way ways[] = {
        {"16, 28, 36 pixels", {{0, 16, 16}, {6, 32, 16}, {13, 14, 28}, {28, 8, 36}}},
        {"28 pixels", {{0, 14, 28}}}};
    fmt::print("{:20} {:>4}   epoch at {} %   GFLOP   seconds   final top-1   top-5\n", "images",
               "seed", target_pct);
    std::vector<double> seconds[2], work[2];
    bool all_reached = true;
    for (int r = 1; r <= runs; ++r)
        for (std::size_t w = 0; w < 2; ++w) {  // in turns
            const Reached at = train(ways[w], folder, target_pct, std::uint64_t(r));
            fmt::print("{:20} {:>4}   {:>13}   {:5.0f}   {:7.2f}   {:11.1f}   {:5.1f}\n",
                       ways[w].name, r, at.epoch > 0 ? std::to_string(at.epoch) : "never",
                       at.giga_flops, at.seconds, at.top1_pct, at.top5_pct);
            std::fflush(stdout);
            all_reached = all_reached && at.epoch > 0;
            seconds[w].push_back(at.seconds);
            work[w].push_back(at.giga_flops);
        }
    if (!all_reached) return fmt::print("no medians: not every run reached {} %\n", target_pct);
    fmt::print("medians: {:.2f} of the computation and {:.2f} of the time of one size\n",
               median(work[0]) / median(work[1]), median(seconds[0]) / median(seconds[1]));
}

int main(int argc, char** argv) {
    int runs = 3;
    double target_pct = 93;
    fs::path folder;
    CLI::App app{"Progressive image sizes against one, on drawn images.", "gx_imagenet_18"};
    app.option_defaults()->always_capture_default();
    app.add_option("--runs", runs, "of each, with another seed")->check(count_in(1, 100));
    app.add_option("--top5", target_pct, "accuracy to reach, in %")->check(number_in(1, 100));
    app.add_option("--folder", folder,
                   "a new one, where the images are drawn; else they go at the end");
    return run_program(app, argc, argv, [&] {
        std::optional<recipes::TemporaryFolder> temporary;
        if (folder.empty()) folder = temporary.emplace("gx-imagenet-18").path;
        else recipes::make_new_folder(folder);
        compare(runs, target_pct, folder);
    });
}
