// AWS 2018: ResNet-50 on 64 V100, by NAG with a warmup, then steps or a polynomial.
// Run:  build/release/recipes/aws_resnet50                  on images that it draws
//       build/release/recipes/aws_resnet50 --train imagenet/train --test imagenet/val
//       build/release/recipes/aws_resnet50 --train train-*-of-01024 --test validation-*
//
// As published (AWS machine-learning blog, 2018-07-20): Nesterov's accelerated gradient with
// momentum 0.9; a rate of 0.1 for a batch of 256, in proportion to the batch; a warmup, of 10
// epochs of 90; then a tenth at each of three epochs, or a polynomial of power 2; gradients reduced
// in fp16 by rings of NCCL, the loss scaled by 1024.
// Other than published: ResNet-8, 36 pixels, batch 64 on 2 threads, 20 epochs; the network computes
// in fp32: on GPUs add Compute<fp16> to the Trainer. ResNet50 and {224, 224} are the source's.
// Epochs of steps are a third, two thirds and eight ninths of the run, as Goyal et al. have them.
#include "stand_in.hpp"  // draw_images, TemporaryFolder

#include <optional>  // the images that are drawn
#include <vector>    // shards

#include <fmt/format.h>  // lines

#include <gx/image/codec/recipe.hpp>           // ImageRecipe, CentreRecipe
#include <gx/image/codec/recipe_decoder.hpp>   // RecipeDecoder
#include <gx/loader/decoded.hpp>               // Decoded
#include <gx/loader/formats/open_encoded.hpp>  // open_encoded: folders, RecordIO, TFRecord, tars
#include <gx/loader/prefetch.hpp>              // Prefetched
#include <gx/model/cifar_resnet.hpp>           // CifarResNet
#include <gx/onednn/device.hpp>                // Device
#include <gx/reducer/ring.hpp>                 // Ring
#include <gx/scheduler/linear_scaling.hpp>     // LinearScaling
#include <gx/scheduler/step_decay.hpp>         // StepDecay
#include <gx/threads/threads.hpp>              // Threads
#include <gx/trainer/trainer.hpp>              // Trainer

#include "../../sims/support/command_line.hpp"  // run_program

using namespace gx;
using Net = CifarResNet<8, 3, 36, recipes::classes>;
template <class Next>
using Job = Trainer<Net, Ring<fp16>, LinearScaling<Warmup<Next>>, Sgd, Prefetched<InMemory<>>,
                    StaticLossScale>;
constexpr ImageSize size{36, 36};
constexpr int gpus = 2;

template <class Next>
void train(const char* name, const Sources& data, int epochs) {
    typename Job<Next>::Options o{.batch = 64 / gpus, .epochs = epochs, .pixels = true};
    const Step steps_per_epoch = (data.train.count() + 63) / 64;
    o.scheduler = {.reference_batch = 256,
                   .next = {.climb_steps = std::max<Step>(1, epochs * steps_per_epoch / 9),
                            .next = {.peak_rate = 0.1f}}};
    o.optimizer.nesterov = true;
    o.loss_scale.factor = 1024;
    Threads<gpus, onednn::Device> world;
    const RunRecord run = Job<Next>(o).train(world, data);
    fmt::print("{:14} top-1 {:5.1f} %   top-5 {:5.1f} %   {:6.0f} images/s   {} steps skipped\n",
               name, run.test_accuracy_pct(), run.test_top5_accuracy_pct(), run.images_per_second,
               run.skipped_steps);
}

int main(int argc, char** argv) {
    using Crops = ImageRecipe<RandomResizedCrop>;
    std::vector<std::filesystem::path> train_set, test_set;
    int epochs = 20, drawn = 100;
    CLI::App app{"AWS's recipe for ResNet-50, on images of any source.", "aws_resnet50"};
    app.option_defaults()->always_capture_default();
    auto* const train_option =
        app.add_option("--train", train_set, "folder, or all shards; else images are drawn");
    train_option->needs(
        app.add_option("--test", test_set, "folder, or all shards")->needs(train_option));
    app.add_option("--epochs", epochs, "of each run")->check(count_in(1, 1000));
    app.add_option("--drawn", drawn, "images of a class, where they are drawn")
        ->check(count_in(8, 250));
    return run_program(app, argc, argv, [&] {
        std::optional<recipes::TemporaryFolder> folder;
        if (train_set.empty() || test_set.empty()) {
            recipes::draw_images(folder.emplace("gx-recipe-aws").path, {.train = drawn});
            train_set = {folder->path / "train"}, test_set = {folder->path / "test"};
        }
        const Decoded images(open_encoded(train_set),
                             RecipeDecoder(Crops({.to = size, .crop = {.area_min = 0.35}})),
                             {.workers = 2});
        const Decoded tests(open_encoded(test_set),
                            RecipeDecoder(CentreRecipe({.to = size, .shorter = 41})));
        train<StepDecay>("steps", {images, tests}, epochs);
        train<Poly<2>>("polynomial", {images, tests}, epochs);
    });
}
