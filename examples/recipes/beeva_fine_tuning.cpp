// BEEVA 2017: fine-tune a trained network to new classes of which there are few images.
// Run:  build/release/recipes/beeva_fine_tuning --folder beeva
//       build/release/gx_test_io beeva/new/train --model ResNet20 --side 28
//
// As published (BEEVA 2017-2018): ResNet-152, trained on ImageNet, gets a new last layer for the
// classes of Caltech-256 and trains 6 epochs; 86.5 % validation accuracy; a test-io of MXNet showed
// whether the feed or the GPUs were the bottleneck: above, ./gx test-io.
// Other than published: a CifarResNet<8> stands for a ResNet-18, the smallest network of
// ResNet-152's kind. This program trains it at 28 pixels on 12 classes of drawn images, and writes
// it as safetensors; the new classes are 8 others, of 20 images each. One rate for all layers, a
// fifth of that from scratch. It compares with training from scratch at equal epochs, images and
// order, over seeds. At its full length, the default, its status is 1 where fine-tuning is not
// ahead with each seed.
#include "stand_in.hpp"  // draw_images, TemporaryFolder

#include <algorithm>  // min
#include <optional>   // a folder that goes
#include <stdexcept>  // runtime_error

#include <fmt/format.h>  // lines

#include <gx/image/codec/recipe.hpp>           // ImageRecipe, CentreRecipe
#include <gx/image/codec/recipe_decoder.hpp>   // RecipeDecoder
#include <gx/loader/decoded.hpp>               // Decoded
#include <gx/loader/formats/image_folder.hpp>  // ImageFolder
#include <gx/loader/prefetch.hpp>              // Prefetched
#include <gx/model/cifar_resnet.hpp>           // CifarResNet
#include <gx/onednn/device.hpp>                // Device
#include <gx/reducer/ring.hpp>                 // Ring
#include <gx/scheduler/cosine.hpp>             // Cosine
#include <gx/threads/threads.hpp>              // Threads
#include <gx/trainer/trainer.hpp>              // Trainer

#include "../../sims/support/command_line.hpp"  // run_program

using namespace gx;
namespace fs = std::filesystem;
template <int Classes>
using Job =
    Trainer<CifarResNet<8, 3, 28, Classes>, Ring<fp32>, Cosine, Sgd, Prefetched<InMemory<>>>;
constexpr int known = 12, fresh = recipes::classes - known;

template <int Classes>
RunRecord train(const fs::path& folder, typename Job<Classes>::Options o) {
    using Crops = ImageRecipe<RandomResizedCrop>;
    const Decoded images(
        ImageFolder(folder / "train"),
        RecipeDecoder(Crops({.to = {28, 28}, .crop = {.area_min = 0.35}, .seed = o.seed})));
    const Decoded tests(ImageFolder(folder / "test"),
                        RecipeDecoder(CentreRecipe({.to = {28, 28}, .shorter = 32})));
    Threads<2, onednn::Device> world;
    return Job<Classes>(o).train(world, Sources{images, tests});
}

int main(int argc, char** argv) {
    constexpr int full_pretraining = 24, full_epochs = 6, full_drawn = 100;
    int pretraining = full_pretraining, epochs = full_epochs, seeds = 3, drawn = full_drawn;
    fs::path kept;
    CLI::App app{"Fine-tuning to classes with few images, beside training from scratch.",
                 "beeva_fine_tuning"};
    app.option_defaults()->always_capture_default();
    app.add_option("--pretraining", pretraining, "epochs on the known classes")
        ->check(count_in(1, 1000));
    app.add_option("--epochs", epochs, "on the new classes")->check(count_in(1, 1000));
    app.add_option("--seeds", seeds, "of each")->check(count_in(1, 100));
    app.add_option("--drawn", drawn, "images of a known class")->check(count_in(8, 250));
    app.add_option("--folder", kept, "a new one, for images and weights; else they go at the end");
    return run_program(app, argc, argv, [&] {
        if (!kept.empty()) recipes::make_new_folder(kept);
        std::optional<recipes::TemporaryFolder> temporary;
        const fs::path folder = kept.empty() ? temporary.emplace("gx-recipe-beeva").path : kept;
        recipes::draw_images(folder / "known", {.end_class = known, .train = drawn});
        recipes::draw_images(folder / "new", {.first_class = known, .train = 20});
        const RunRecord before = train<known>(folder / "known", {.batch = 16,
                                                                 .epochs = pretraining,
                                                                 .pixels = true,
                                                                 .scheduler = {.peak_rate = 0.1f},
                                                                 .output = folder / "trained"});
        fmt::print("{} known classes: test {:.1f} %\n", known, before.test_accuracy_pct());
        double least = 100;
        for (int seed = 1; seed <= seeds; ++seed) {
            Job<fresh>::Options o{.batch = 5,
                                  .epochs = epochs,
                                  .pixels = true,
                                  .seed = std::uint64_t(seed),
                                  .scheduler = {.peak_rate = 0.1f}};
            const double scratch = train<fresh>(folder / "new", o).test_accuracy_pct();
            o.scheduler.peak_rate /= 5;
            o.weights = {.file = folder / "trained" / checkpoint_name(pretraining),
                         .fresh = {"fc"}};
            const double tuned = train<fresh>(folder / "new", o).test_accuracy_pct();
            fmt::print(
                "seed {}: {} new classes, 20 images each: fine-tuned {:.1f} %, from scratch "
                "{:.1f} %\n",
                seed, fresh, tuned, scratch);
            least = std::min(least, tuned - scratch);
        }
        fmt::print("fine-tuning is ahead by at least {:.1f} points\n", least);
        if (least <= 0 && pretraining >= full_pretraining && epochs == full_epochs &&
            drawn >= full_drawn)
            throw std::runtime_error(fmt::format(
                "with one seed fine-tuning is {:.1f} points ahead of training from scratch, where "
                "more than 0 are expected: look for a change of the network, its training or the "
                "weights that are loaded",
                least));
    });
}
