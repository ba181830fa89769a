// Whether the input pipeline or the training step is the bottleneck: images a second of each alone
// and of both together, for any source of images that gx reads.
// Run:  build/release/gx_test_io imagenet/train --model ResNet50 --batch 32
//       build/release/gx_test_io shards/train-*.rec --device-rate 2800
//       build/release/gx_test_io cifar-10-batches-bin
// Exit: 0 measured; 2 for a command line or a source that cannot be used

#include <algorithm>    // max, min
#include <chrono>       // seconds
#include <cstdio>       // stdout
#include <cstdlib>      // getloadavg
#include <filesystem>   // sources
#include <fstream>      // the name of the CPU
#include <functional>   // what was skipped
#include <memory>       // sources
#include <string>       // sentences
#include <string_view>  // names
#include <thread>       // hardware_concurrency
#include <vector>       // files

#include <fmt/format.h>  // lines

#include <gx/image/codec/recipe.hpp>           // ImageRecipe
#include <gx/image/codec/recipe_decoder.hpp>   // RecipeDecoder
#include <gx/io/json_text.hpp>                 // JsonWriter
#include <gx/io/nearest.hpp>                   // nearest_name
#include <gx/loader/decoded.hpp>               // Decoded
#include <gx/loader/formats/cifar.hpp>         // cifar10, cifar100
#include <gx/loader/formats/idx_files.hpp>     // IdxFiles
#include <gx/loader/formats/open_encoded.hpp>  // open_encoded
#include <gx/loader/idx.hpp>                   // read_idx_dataset
#include <gx/loader/in_memory.hpp>             // InMemory
#include <gx/loader/prefetch.hpp>              // Prefetched
#include <gx/loader/record_file.hpp>           // RecordFile
#include <gx/model/cifar_resnet.hpp>           // ResNet20
#include <gx/model/lenet.hpp>                  // LeNet
#include <gx/model/resnet.hpp>                 // ResNet50
#include <gx/onednn/device.hpp>                // Device
#include <gx/optimizer/sgd.hpp>                // Sgd
#include <gx/trainer/setup.hpp>                // misfit
#include <gx/trainer/weights.hpp>              // initial_weights

#include "../../sims/support/command_line.hpp"  // run_program
#include "../../sims/support/cpu_name.hpp"      // cpu_name

namespace {

namespace fs = std::filesystem;
using gx::Error;
using Clock = std::chrono::steady_clock;

struct Arguments {
    std::vector<fs::path> files{};
    fs::path json{};
    std::string from{}, model{};
    int batch = 32, workers = 0, side = 224;
    double seconds = 5, device_rate = 0;
};

// ---- The source -----------------------------------------------------------------------------

/// A source of any type, and how its images are fed.
struct Opened {
    std::shared_ptr<void> owner{};
    gx::SourceRef source{};
    bool decodes = false;  ///< files of images; else pixels of one size
    /// Corrupt images: records that are no samples, and samples that others have stood for.
    std::function<gx::SkippedRecords()> skipped = [] { return gx::SkippedRecords{}; };
};
template <class S>
Opened keep(S source) {
    auto owner = std::make_shared<S>(std::move(source));
    return {owner, gx::SourceRef(*owner)};
}

/// Whether a file begins as gzip's do.
bool is_packed(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return in.get() == 0x1f && in.get() == 0x8b;
}
/// "train-images-idx3-ubyte.gz" and the labels beside it.
Opened open_idx(const fs::path& images) {
    std::string name = images.filename().string();
    const std::size_t at = name.find("images-idx3");
    const fs::path labels = images.parent_path() / name.replace(at, 11, "labels-idx1");
    if (!is_packed(images) && !is_packed(labels))
        return keep(gx::IdxFiles(images, labels, 0, images.string()));
    const auto all = gx::read_idx(labels, 1).bytes;  // in memory: gzip has no places
    const int classes = all.empty() ? 2 : 1 + *std::ranges::max_element(all);
    return keep(gx::read_idx_dataset(images, labels, std::max(2, classes), images.string()));
}
Opened open_encoded(const Arguments& a) {
    std::optional<gx::EncodedFormat> format;
    if (!a.from.empty()) format = gx::encoded_format(a.from);
    using Crops = gx::ImageRecipe<gx::RandomResizedCrop>;
    const auto files = gx::open_encoded(a.files, {.on_corrupt = gx::OnCorrupt::skip}, format);
    const auto images = std::make_shared<gx::Decoded<gx::EncodedFiles, gx::RecipeDecoder<Crops>>>(
        files, gx::RecipeDecoder(Crops({.to = {a.side, a.side}, .seed = 1})),
        gx::DecodedOptions{.workers = a.workers, .on_corrupt = gx::OnCorrupt::skip});
    return {images, gx::SourceRef(*images), true, [files, images] {
                gx::SkippedRecords all = files.skipped();
                const gx::SkippedRecords read = images->skipped();
                all.count += read.count;
                all.first.insert(all.first.end(), read.first.begin(), read.first.end());
                return all;
            }};
}
Opened open(const Arguments& a) {
    const fs::path& first = a.files.front();
    const auto expect_alone = [&] {
        if (a.files.size() > 1)
            throw Error(
                fmt::format("'{}' is one too many: a source of this kind is one folder or "
                            "one file",
                            a.files[1].string()));
    };
    if (!a.from.empty()) return open_encoded(a);
    if (fs::is_directory(first)) {
        if (fs::exists(first / "data_batch_1.bin")) {
            expect_alone();
            return keep(gx::cifar10(first).train);
        }
        if (fs::exists(first / "train.bin")) {
            expect_alone();
            return keep(gx::cifar100(first).train);
        }
        for (const char* name : {"train-images-idx3-ubyte.gz", "train-images-idx3-ubyte"})
            if (fs::exists(first / name)) {
                expect_alone();
                return open_idx(first / name);
            }
        return open_encoded(a);
    }
    const std::string name = first.filename().string();
    if (name.find("images-idx3") != name.npos) {
        expect_alone();
        return open_idx(first);
    }
    if (first.extension() == ".gxr") {
        expect_alone();
        return keep(gx::RecordFile(first));
    }
    if (first.extension() == ".bin") return keep(gx::Cifar(a.files));
    return open_encoded(a);
}

// ---- The step -------------------------------------------------------------------------------

struct Model {
    std::string_view name;
    gx::Graph (*graph)(const gx::GraphOptions&);
    gx::GraphTrouble (*trouble)(const gx::GraphOptions&);
};
template <class... M>
std::vector<Model> list() {
    return {{M::name, &gx::graph<M>, &gx::trouble<M>}...};
}
Model model_of(const Arguments& a, const gx::SourceInfo& info) {
    using namespace gx;
    static const auto known =
        list<ResNet18, ResNet34, ResNet50, ResNet101, ResNet152, ResNet20, ResNet56, LeNet>();
    const bool small = info.shape.height < 64;
    const std::string_view wanted = !a.model.empty() ? std::string_view(a.model)
                                    : small          ? ResNet20::name
                                                     : ResNet50::name;
    std::vector<std::string_view> names;
    for (const Model& m : known) {
        names.push_back(m.name);
        if (m.name != wanted) continue;
        const std::string misfit = gx::detail::trainer::misfit(m.name, m.trouble, info.shape);
        if (!misfit.empty()) throw Error(fmt::format("--model: {}", misfit));
        return m;
    }
    const std::string_view nearest = nearest_name(wanted, names);
    throw Error(fmt::format("--model '{}': there is no such network.{} There are: {}",
                            printable(wanted),
                            nearest.empty() ? "" : fmt::format(" Did you mean '{}'?", nearest),
                            fmt::join(names, ", ")));
}

/// Forward, backward and update of one rank.
class TrainingStep {
public:
    TrainingStep(const gx::Graph& graph, int batch)
        : device_(graph, {.batch = batch}),
          gradients_(device_.parameters().size()),
          state_(gradients_.size()),
          sgd_(gx::Sgd::Options()) {
        sgd_.reserve(gradients_.size(), device_.slices(), graph);
        const gx::Weights w = gx::initial_weights(graph, 1);
        device_.update([&](std::span<float> p) { device_.from_canonical(w.parameters, p); });
        std::ranges::copy(w.statistics, device_.statistics().begin());
    }
    void operator()(const gx::Batch& batch) {
        if (batch.count == 0) return;
        (void)device_.forward(batch, gx::Mode::train);
        device_.backward(1.0f / float(batch.count), gradients_, [](std::size_t) {});
        device_.update([&](std::span<float> p) {
            sgd_.update({.parameters = p,
                         .gradients = gradients_,
                         .state = state_,
                         .slices = device_.slices(),
                         .rate = 1e-4f,
                         .step = made_++});
        });
    }

private:
    gx::onednn::Device device_;
    std::vector<float> gradients_, state_;
    gx::Sgd sgd_;
    std::int64_t made_ = 0;
};

// ---- Measuring ------------------------------------------------------------------------------

/// Batches without an end, epoch after epoch.
template <class L>
class Feed {
public:
    Feed(const gx::SourceRef& source, int batch)
        : loader_(source, gx::LoaderOptions{.batch = batch, .seed = 1, .pixels = true}) {
        loader_.begin_epoch(0);
    }
    gx::Batch next() {
        if (step_ == loader_.steps_per_epoch()) {
            loader_.begin_epoch(++epoch_);
            step_ = 0;
        }
        ++step_;
        return loader_.next().batch;
    }

private:
    L loader_;
    std::int64_t step_ = 0;
    int epoch_ = 0;
};

struct Rate {
    double images_per_second = 0, waiting = 0;  ///< share of the time that it waits for images
};
/// Calls f, which returns the images that it has done and adds the seconds that it waits, once to
/// warm up and then until the time is over, at least twice.
template <class F>
Rate measure(const char* what, double seconds, F f) {
    gx::print_error("gx_test_io: {}: {} s ...\n", what, seconds);
    double waited = 0;
    (void)f(waited);
    waited = 0;
    std::int64_t images = 0;
    double passed = 0;
    const auto begin = Clock::now();
    for (int calls = 0; calls < 2 || passed < seconds; ++calls) {
        images += f(waited);
        passed = std::chrono::duration<double>(Clock::now() - begin).count();
    }
    return {double(images) / passed, waited / passed};
}

struct Result {
    double feed = 0, step = 0, both = 0, waiting = 0;
};
template <class L>
Result measure_all(const Arguments& a, const gx::SourceRef& source, const gx::Graph* graph) {
    Result r{.step = a.device_rate};
    Feed<L> feed(source, a.batch);
    r.feed = measure("the feed alone", a.seconds, [&](double&) {
                 return feed.next().count;
             }).images_per_second;
    if (graph == nullptr) return r;
    TrainingStep step(*graph, a.batch);
    gx::Batch one = feed.next();
    if (one.count < a.batch) one = feed.next();  // not the last of an epoch
    r.step = measure("the step alone", a.seconds, [&](double&) {
                 step(one);
                 return one.count;
             }).images_per_second;
    const Rate both = measure("both", a.seconds, [&](double& waited) {
        const auto begin = Clock::now();
        const gx::Batch next = feed.next();
        waited += std::chrono::duration<double>(Clock::now() - begin).count();
        step(next);
        return next.count;
    });
    r.both = both.images_per_second;
    r.waiting = both.waiting;
    return r;
}

/// A sentence of the library, whose option of corrupt records is none of this program's.
std::string with_options(const std::string& sentence) {
    return gx::detail::encoded::with_skip_option(
        sentence, "by packing the rest with gx_records --pack and --skip-corrupt");
}

// ---- What it means --------------------------------------------------------------------------

bool feed_limits(const Result& r) { return r.feed < r.step; }
/// What limits, and what to change.
std::string verdict(const Arguments& a, const Result& r, bool decodes) {
    std::string text;
    if (feed_limits(r)) {
        text = fmt::format(
            "bottleneck: the feed. It delivers {:.0f} % of the images that the step takes.\n",
            100 * r.feed / r.step);
        if (decodes)
            text += fmt::format(
                "  Change: decode on about {:.0f} cores (--workers is {}), or divide the source\n"
                "  among more ranks; store smaller images, as 256 pixels on the shorter side;\n"
                "  pack a folder into shards (./gx records --pack) where the disk is slow.\n",
                std::ceil(a.workers * r.step / r.feed), a.workers);
        else
            text +=
                "  Change: divide the source among more ranks, or use a larger network:\n"
                "  these images are not decoded, so their copy is all that the feed does.\n";
    } else {
        text = fmt::format(
            "bottleneck: the step. The feed delivers {:.1f} times the images that it takes.\n"
            "  Change: the device, its compute type or the network; a faster feed gains nothing\n"
            "  until a rank takes {:.0f} images/s.\n",
            r.feed / r.step, r.feed);
    }
    const double expected = std::min(r.feed, r.step);
    if (r.both > 0 && r.both < 0.85 * expected)
        text += fmt::format(
            "  Together they reach {:.0f} % of the slower one alone: both use the same cores.\n"
            "  Give them cores of their own: OMP_NUM_THREADS for the step, --workers for the "
            "feed.\n",
            100 * r.both / expected);
    return text;
}

void run(Arguments a) {
    gx::expect_outputs({{"--json", a.json}});
    const int cores = std::max(1, int(std::thread::hardware_concurrency()));
    if (a.workers == 0) a.workers = cores;
    const Opened opened = open(a);
    const gx::SourceInfo info = opened.source.info();
    if (info.count < 1) throw Error(fmt::format("source '{}' has no images", info.name));
    if (a.batch > info.count)
        throw Error(fmt::format("--batch {}: source '{}' has {} images: ask for as many at most",
                                a.batch, info.name, info.count));
    if (info.classes < 2)
        throw Error(fmt::format("source '{}' has {} class: a network needs at least 2", info.name,
                                info.classes));
    gx::Graph graph;
    std::string model;
    if (a.device_rate == 0) {
        const Model m = model_of(a, info);
        model = m.name;
        graph = m.graph({.input = info.shape, .classes = info.classes});
    }
    const gx::Graph* const trained = a.device_rate == 0 ? &graph : nullptr;
    double load = 0;
    (void)getloadavg(&load, 1);

    const Result r = opened.decodes
                         ? measure_all<gx::Prefetched<gx::InMemory<>>>(a, opened.source, trained)
                         : measure_all<gx::Prefetched<gx::InMemory<gx::PadCrop<4>, gx::Flip>>>(
                               a, opened.source, trained);

    fmt::print("{}; {} cores; load of others before: {:.1f}\n", gx::cpu_name(), cores, load);
    fmt::print("{}, {}\n", gx::printable(gx::describe(info)),
               opened.decodes ? fmt::format("decoded from crops by {} workers", a.workers)
                              : "padded, cropped and mirrored");
    const gx::SkippedRecords skipped = opened.skipped();
    if (skipped.count > 0)
        fmt::print(
            "{} reads gave no image, so these rates are of the others. The first: {}\n"
            "  Change: mend or remove what is corrupt{}.\n",
            skipped.count, gx::printable(with_options(skipped.first.front())),
            opened.decodes ? "; gx_records --decode --verify names each" : "");
    fmt::print("feed alone   {:>9.1f} images/s\n", r.feed);
    if (trained == nullptr) fmt::print("device       {:>9.1f} images/s, as given\n", r.step);
    else
        fmt::print(
            "step alone   {:>9.1f} images/s   {}, batch {}, fp32, oneDNN\n"
            "both         {:>9.1f} images/s   {:.0f} % of the time waiting for images\n",
            r.step, model, a.batch, r.both, 100 * r.waiting);
    fmt::print("{}", verdict(a, r, opened.decodes));

    if (a.json.empty()) return;
    gx::JsonWriter w;
    w.open('{').field("command", "test-io").field("cpu", gx::cpu_name()).field("load", load);
    w.field("source", info.name).field("images", info.count).field("classes", info.classes);
    w.field("channels", info.shape.channels).field("height", info.shape.height);
    w.field("width", info.shape.width).field("model", model).field("batch", a.batch);
    w.field("workers", opened.decodes ? a.workers : 0).field("skipped", skipped.count);
    w.field("feed_images_per_second", r.feed).field("step_images_per_second", r.step);
    if (trained != nullptr)
        w.field("both_images_per_second", r.both).field("waiting_pct", 100 * r.waiting);
    w.field("bottleneck", feed_limits(r) ? "feed" : "step");
    gx::write_file(a.json, w.close('}').text() + "\n");
}

}  // namespace

int main(int argc, char** argv) {
    Arguments a;
    CLI::App app{"Whether the input pipeline or the training step is the bottleneck.",
                 "gx_test_io"};
    app.option_defaults()->always_capture_default();
    app.add_option("source", a.files,
                   "a folder with a folder of images for each class, or with the files of CIFAR or "
                   "of MNIST; .rec, .tar, TFRecord, .gxr, .bin or IDX files")
        ->required();
    app.add_option("--from", a.from, "folder, recordio, tfrecord or webdataset; else by name");
    app.add_option("--model", a.model,
                   "network of the step; else ResNet50, or ResNet20 below 64 "
                   "pixels");
    app.add_option("--batch", a.batch, "images of a step")->check(gx::count_in(1, 65536));
    app.add_option("--side", a.side, "pixels to which files of images are cropped and resized")
        ->check(gx::count_in(1, 4096));
    app.add_option("--workers", a.workers, "threads that decode; 0: one a core")
        ->check(gx::count_in(0, 1024));
    app.add_option("--seconds", a.seconds, "of each measurement")->check(gx::number_in(0.01, 3600));
    app.add_option("--device-rate", a.device_rate,
                   "images/s of the device that is to be fed; measures no step")
        ->check(gx::number_in(0, 1e12));
    app.add_option("--json", a.json, "write the results to this file");
    return gx::run_program(app, argc, argv, [&] {
        try {
            run(a);
        } catch (const Error& e) {
            throw Error(with_options(e.what()));
        }
    });
}
