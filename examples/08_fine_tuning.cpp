// Fine-tune a trained network to new classes: its last layer learns on features that the other
// layers, which stay as they are, have computed once. Then it names the classes of images.
// Run:     build/dev/examples/08_fine_tuning
// Prints:  ten classes: test 88.5 %
//          four new classes, 388 of 3160 weights trained: test 82.0 %
//          the same epochs from scratch: test 54.5 %
//          north 67 %
//          west 25 %
//          it is north

#include <unistd.h>  // getpid

#include <cstdio>      // printf
#include <filesystem>  // folders
#include <string>      // names

#include <gx/loader/synthetic.hpp>   // synthetic
#include <gx/model/layers.hpp>       // Network
#include <gx/reducer/ring.hpp>       // Ring
#include <gx/reference/device.hpp>   // Device
#include <gx/scheduler/poly.hpp>     // Poly
#include <gx/threads/threads.hpp>    // Threads
#include <gx/trainer/features.hpp>   // Features, CachedFeatures, with_head
#include <gx/trainer/predictor.hpp>  // Predictor
#include <gx/trainer/trainer.hpp>    // Trainer

using namespace gx;

struct Net : Network<ImageShape{1, 12, 12}, 10, Conv<12, 3, 1, 1>, BatchNorm, ReLU, MaxPool<2>,
                     Conv<24, 3, 1, 1>, BatchNorm, ReLU, GridAvgPool<2>, Named<"fc", Classifier>> {
    static constexpr std::string_view name = "Net";
};

Split images(int classes, int train, std::uint64_t seed) {
    return synthetic({.shape = {1, 12, 12},
                      .classes = classes,
                      .train_count = train,
                      .test_count = 200,
                      .noise = 150,
                      .seed = seed});
}

int main() {
    const auto folder = std::filesystem::temp_directory_path() /
                        ("gx-08-fine-tuning-" + std::to_string(::getpid()));
    Threads<2, reference::Device> threads;

    // A network that knows ten classes.
    const Split many = images(10, 600, 1);
    const RunRecord pretrained =
        Trainer<Net, Ring<fp32>, Poly<1>>(
            {.batch = 10, .epochs = 4, .scheduler = {.peak_rate = 0.05f}, .output = folder / "all"})
            .train(threads, many);
    std::printf("ten classes: test %.1f %%\n", pretrained.epochs.back().test_accuracy_pct);

    // Four new ones, of which there are twenty images. All but "fc" stays as it is.
    Split few = images(4, 20, 2);
    few.train.class_names = few.test.class_names = {"north", "east", "south", "west"};
    few.test.mean = few.train.mean = many.train.mean;  // as the network was trained
    few.test.deviation = few.train.deviation = many.train.deviation;
    const Graph whole = graph<Net>({.classes = 4});
    const Weights weights =
        read_weights({.file = folder / "all" / checkpoint_name(4), .fresh = {"fc"}}, whole,
                     initial_weights(whole, 1));
    const CachedFeatures train(Features<reference::Device>(few.train, whole, weights, "fc"));
    const CachedFeatures test(Features<reference::Device>(few.test, whole, weights, "fc"));
    using Last = Head<Net, "fc">;
    const RunRecord tuned =
        Trainer<Last, Ring<fp32>, Poly<1>>(
            {.batch = 5, .epochs = 6, .scheduler = {.peak_rate = 0.05f}, .output = folder / "fc"})
            .train(threads, Sources{train, test});
    std::printf("four new classes, %lld of %lld weights trained: test %.1f %%\n",
                static_cast<long long>(graph<Last>({.classes = 4}).parameter_elements()),
                static_cast<long long>(whole.parameter_elements()),
                tuned.epochs.back().test_accuracy_pct);

    const RunRecord scratch = Trainer<Net, Ring<fp32>, Poly<1>>(
                                  {.batch = 5, .epochs = 6, .scheduler = {.peak_rate = 0.05f}})
                                  .train(threads, few);
    std::printf("the same epochs from scratch: test %.1f %%\n",
                scratch.epochs.back().test_accuracy_pct);

    // One file of the whole network, which torchvision could read too.
    const Graph head = graph<Last>({.classes = 4});
    write_weights(
        folder / "net.safetensors", whole,
        with_head(whole, weights, head, read_weights(folder / "fc" / checkpoint_name(6), head)),
        {{"images", to_json({.shape = {1, 12, 12},
                             .mean = few.train.mean,
                             .deviation = few.train.deviation,
                             .classes = 4,
                             .class_names = few.train.class_names})}});
    Predictor<Net, reference::Device> predictor(folder / "net.safetensors");
    const auto first = std::span(few.test.pixels).first(12 * 12);
    for (const Prediction& p : predictor.top(first, 2))
        std::printf("%s %.0f %%\n", p.name.c_str(), 100 * p.probability);
    std::printf("it is %s\n", few.test.class_names[few.test.labels[0]].c_str());
    std::filesystem::remove_all(folder);
}
