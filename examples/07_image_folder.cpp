// Train on a folder of image files, each of its own size: crops, mirrored images and colours change
// from epoch to epoch, and the test shows the centre of each image.
// Run:     build/dev/examples/07_image_folder
// Prints:  120 files, classes: blue green red
//          epoch 1  loss 0.976  test 80.0 %
//          epoch 2  loss 0.640  test 100.0 %
//          epoch 3  loss 0.385  test 100.0 %
//          epoch 4  loss 0.397  test 100.0 %

#include <unistd.h>  // getpid

#include <cstdio>      // printf
#include <filesystem>  // folders
#include <string>      // names
#include <vector>      // pixels

#include <png.h>  // png_image_write_to_file

#include <gx/image/codec/recipe.hpp>           // ImageRecipe, CentreRecipe
#include <gx/image/codec/recipe_decoder.hpp>   // RecipeDecoder
#include <gx/loader/decoded.hpp>               // Decoded
#include <gx/loader/formats/image_folder.hpp>  // ImageFolder
#include <gx/loader/prefetch.hpp>              // Prefetched
#include <gx/model/layers.hpp>                 // Network
#include <gx/reducer/ring.hpp>                 // Ring
#include <gx/reference/device.hpp>             // Device
#include <gx/scheduler/poly.hpp>               // Poly
#include <gx/threads/threads.hpp>              // Threads
#include <gx/trainer/trainer.hpp>              // Trainer

namespace fs = std::filesystem;

/// A disc on a striped ground, of one class's colour; sizes and places differ.
void draw(const fs::path& file, int channel, int number) {
    const int width = 24 + number * 7 % 23, height = 20 + number * 11 % 29;
    const int x0 = width / 3 + number % 5, y0 = height / 2, radius = 6 + number % 4;
    std::vector<unsigned char> pixels;
    for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x)
            for (int c = 0; c < 3; ++c) {
                const bool inside = (x - x0) * (x - x0) + (y - y0) * (y - y0) < radius * radius;
                const int ground = 60 + 40 * ((x + y + number) / 4 % 2);
                pixels.push_back(static_cast<unsigned char>(inside && c == channel ? 200 : ground));
            }
    png_image image{};
    image.version = PNG_IMAGE_VERSION;
    image.width = static_cast<png_uint_32>(width);
    image.height = static_cast<png_uint_32>(height);
    image.format = PNG_FORMAT_RGB;
    png_image_write_to_file(&image, file.c_str(), 0, pixels.data(), 0, nullptr);
}

struct SmallNet : gx::Network<gx::ImageShape{3, 16, 16}, 3, gx::Conv<8, 3, 1, 1>, gx::BatchNorm,
                              gx::ReLU, gx::GlobalAvgPool, gx::Classifier> {
    static constexpr std::string_view name = "SmallNet";
};

int main() {
    const fs::path folder =
        fs::temp_directory_path() / ("gx-07-image-folder-" + std::to_string(::getpid()));
    const char* const colours[] = {"red", "green", "blue"};
    for (const char* const set : {"train", "test"})
        for (int c = 0; c < 3; ++c) {
            fs::create_directories(folder / set / colours[c]);
            for (int i = 0; i < 40; ++i)
                draw(folder / set / colours[c] / (std::to_string(i) + ".png"), c,
                     set[1] == 'r' ? i : 100 + i);
        }

    const gx::ImageFolder files(folder / "train");
    std::printf("%d files, classes:", int(files.info().count));
    for (const std::string& name : files.info().class_names) std::printf(" %s", name.c_str());
    std::printf("\n");

    using Augmented = gx::ImageRecipe<gx::RandomResizedCrop, gx::ColourJitter>;
    const gx::Decoded train(
        files, gx::RecipeDecoder(Augmented({.to = {16, 16}, .crop = {.area_min = 0.5}, .seed = 1})),
        {.workers = 2});
    const gx::Decoded test(gx::ImageFolder(folder / "test"),
                           gx::RecipeDecoder(gx::CentreRecipe({.to = {16, 16}, .shorter = 18})));

    using Trainer =
        gx::Trainer<SmallNet, gx::Ring<gx::fp16>, gx::Poly<1>, gx::Prefetched<gx::InMemory<>>>;
    gx::Threads<2, gx::reference::Device> threads;
    const gx::RunRecord record =
        Trainer({.batch = 6, .epochs = 4, .pixels = true, .scheduler = {.peak_rate = 0.1f}})
            .train(threads, gx::Sources{train, test});
    for (const gx::EpochRow& e : record.epochs)
        std::printf("epoch %d  loss %.3f  test %.1f %%\n", e.epoch + 1, e.train_loss,
                    e.test_accuracy_pct);
    fs::remove_all(folder);
}
