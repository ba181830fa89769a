// Train one network in fp32, bf16 and fp16, with and without a loss scale, and print the accuracy
// of each, and how many gradients fp16 stores as 0: what a compute type costs, and what a loss
// scale saves.
// Run:  build/release/gx_precision
//       build/release/gx_precision --fast --train 4096 --batch 2048 --epochs 30 --rate 0.5

#include <algorithm>  // min
#include <atomic>     // counts of devices
#include <cmath>      // sqrt
#include <cstdio>     // stdout
#include <string>
#include <vector>

#include <fmt/format.h>  // table

#include <gx/loader/idx.hpp>        // fashion_mnist
#include <gx/model/compute.hpp>     // Compute
#include <gx/model/layers.hpp>      // Network
#include <gx/onednn/device.hpp>     // the CPU's own instructions; fp16 emulated
#include <gx/reducer/ring.hpp>      // Ring
#include <gx/reference/device.hpp>  // SummingDevice: sums as GPUs round them
#include <gx/scheduler/cosine.hpp>  // Cosine
#include <gx/threads/threads.hpp>   // Threads
#include <gx/trainer/trainer.hpp>   // Trainer

#include "../../sims/support/command_line.hpp"  // run_program
#include "../../sims/support/cpu_name.hpp"      // cpu_name

using namespace gx;
using reference::SummingDevice;
using reference::Sums;

namespace {

/// Gradients of the last mean are a 49th of those behind it: small numbers, early.
struct Net
    : Network<ImageShape{1, 28, 28}, 10, Conv<8, 3, 2, 1>, BatchNorm, ReLU, Conv<16, 3, 2, 1>,
              BatchNorm, ReLU, Conv<16, 3, 1, 1>, BatchNorm, ReLU, GlobalAvgPool, Classifier> {
    static constexpr std::string_view name = "Small";
};
template <class E, class Scale>
using Run = Trainer<Net, Ring<fp32>, Cosine, Compute<E>, Scale>;

/// The fast device; adds up what its kind counted. Two lanes, so that bits do not depend on cores.
struct Fast : onednn::Device {
    static inline std::atomic<std::int64_t> stored{0}, flushed{0};
    Fast(const Graph& graph, DeviceOptions options) : Device(graph, options, {.lanes = 2}) {}
    ~Fast() {
        stored += counters().gradients_stored;
        flushed += counters().gradients_flushed;
    }
};

struct Settings {
    std::int64_t train = 6000, test = 10'000;
    int epochs = 6, seeds = 3, batch = 128;
    float rate = 0.1f;
    bool fast = false;
    std::filesystem::path data = fashion_mnist_directory;
};
struct Row {
    std::string type, sums, scale;
    std::vector<double> accuracy{};
    std::int64_t skipped = 0;
    std::string flushed{};  ///< share of the gradients of activations, where they are counted
    std::string stopped{};  ///< why a run ended early
};

/// The first `count` images of a set.
void keep_first(Dataset& set, std::int64_t count) {
    const auto n = static_cast<std::size_t>(std::min(count, set.count()));
    set.labels.resize(n);
    set.pixels.resize(n * static_cast<std::size_t>(set.shape.elements()));
}
template <class Device, class E, class Scale>
Row run(const Settings& s, const Split& data, const char* sums, const char* scale_name,
        typename Scale::Options scale) {
    Row row{std::string(E::name), sums, scale_name};
    Fast::stored = 0, Fast::flushed = 0;
    for (int seed = 1; seed <= s.seeds; ++seed) {
        typename Run<E, Scale>::Options o{.batch = s.batch, .epochs = s.epochs};
        o.seed = static_cast<std::uint64_t>(seed);
        o.scheduler.peak_rate = s.rate;
        o.loss_scale = scale;
        Threads<1, Device> world;
        try {
            const RunRecord record = Run<E, Scale>(o).train(world, data);
            row.accuracy.push_back(record.epochs.back().test_accuracy_pct);
            row.skipped += record.skipped_steps;
        } catch (const Error& e) {
            row.stopped = e.what();
        }
    }
    if (Fast::stored > 0)
        row.flushed = fmt::format("{:.3f} %", 100.0 * double(Fast::flushed) / double(Fast::stored));
    return row;
}

void print(const Row& row) {
    double mean = 0, squares = 0;
    const double n = double(row.accuracy.size());
    for (const double a : row.accuracy) mean += a / n;
    for (const double a : row.accuracy) squares += (a - mean) * (a - mean);
    const std::string figure =
        row.accuracy.empty() ? "no run ended"
        : n < 2              ? fmt::format("{:6.2f} %", mean)
                : fmt::format("{:6.2f} % +- {:.2f}", mean, std::sqrt(squares / (n - 1)));
    fmt::print("{:<6} {:<22} {:<10} {:<18} {:>7} {:>9} {}\n", row.type, row.sums, row.scale, figure,
               row.skipped, row.flushed, row.stopped);
    std::fflush(stdout);
}

void measure(const Settings& s) {
    if (s.batch > s.train)
        throw Error(
            fmt::format("--batch {}: there are {} training images: ask for as many at "
                        "most, or raise --train",
                        s.batch, s.train));
    Split data = fashion_mnist(s.data);
    keep_first(data.train, s.train), keep_first(data.test, s.test);
    fmt::print(
        "{}, {} images of Fashion-MNIST, {} epochs, batch {}, {} seeds, on {}\n\n"
        "type   sums                   loss scale test accuracy      skipped   flushed\n",
        "Small", data.train.count(), s.epochs, s.batch, s.seeds, cpu_name());
    using Static = StaticLossScale;
    using Dynamic = DynamicLossScale;
    using Exact = reference::Device;
    using Nearest = SummingDevice<Sums::fp32>;
    using Cut = SummingDevice<Sums::truncated>;
    constexpr auto products = "fp32, oneDNN";
    if (!s.fast) print(run<Exact, fp32, Static>(s, data, "exact", "1", {}));
    print(run<Fast, fp32, Static>(s, data, products, "1", {}));
    if (!s.fast) print(run<Nearest, bf16, Static>(s, data, "fp32", "1", {}));
    print(run<Fast, bf16, Static>(s, data, products, "1", {}));
    for (const float factor : {1.0f, 1024.0f}) {
        const std::string name = fmt::format("{:.0f}", factor);
        if (!s.fast)
            print(run<Nearest, fp16, Static>(s, data, "fp32", name.c_str(), {.factor = factor}));
        print(run<Fast, fp16, Static>(s, data, products, name.c_str(), {.factor = factor}));
    }
    if (!s.fast) print(run<Nearest, fp16, Dynamic>(s, data, "fp32", "dynamic", {}));
    print(run<Fast, fp16, Dynamic>(s, data, products, "dynamic", {}));
    if (!s.fast)
        print(run<Cut, fp16, Static>(s, data, "truncated, as V100", "1024", {.factor = 1024}));
    fmt::print(
        "\nskipped: steps of all seeds whose gradients were not finite. Sums: of products, "
        "inside an operation;\nwhat an operation stores is rounded to the type. flushed: gradients "
        "of activations that fp16 stored\nas 0, of those that were not 0.\n");
}

}  // namespace

int main(int argc, char** argv) {
    Settings s;
    CLI::App app{"The accuracy of fp32, bf16 and fp16, with and without a loss scale.",
                 "gx_precision"};
    app.option_defaults()->always_capture_default();
    app.add_option("--train", s.train, "training images")->check(count_in(1, 60'000));
    app.add_option("--test", s.test, "test images")->check(count_in(1, 10'000));
    app.add_option("--epochs", s.epochs, "passes over the training images")
        ->check(count_in(1, 10'000));
    app.add_option("--seeds", s.seeds, "runs of each row")->check(count_in(1, 1000));
    app.add_option("--batch", s.batch, "images of a step")->check(count_in(1, 60'000));
    app.add_option("--rate", s.rate, "peak learning rate")->check(number_in(1e-9, 1000));
    app.add_flag("--fast", s.fast, "no rows of the reference device, which is slow");
    app.add_option("--data", s.data, "folder of the Fashion-MNIST files");
    return run_program(app, argc, argv, [&] { measure(s); });
}
