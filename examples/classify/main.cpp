// Names the classes of image files with a trained network: a checkpoint of gx, or torchvision's
// weights.
// Run:  build/release/gx_classify --weights out/epoch-0090.safetensors cat.jpg photographs/
//       build/release/gx_classify --weights net.safetensors --model ResNet50 --imagenet cat.jpg
// Exit: 0 all images were named; 1 some could not be read or decoded; 2 for a command line or a
//       file that cannot be used

#include <algorithm>     // sort
#include <cmath>         // lround
#include <csignal>       // SIGPIPE
#include <cstdio>        // fputs
#include <filesystem>    // folders
#include <system_error>  // error_code
#include <vector>        // files

#include <fmt/format.h>  // lines

#include <gx/image/codec/recipe.hpp>          // CentreRecipe
#include <gx/image/codec/recipe_decoder.hpp>  // RecipeDecoder
#include <gx/io/json_text.hpp>                // JsonWriter
#include <gx/io/nearest.hpp>                  // nearest_name
#include <gx/io/read_file.hpp>                // read_file
#include <gx/loader/class_names.hpp>          // class_names_in
#include <gx/model/alexnet.hpp>               // AlexNet
#include <gx/model/cifar_resnet.hpp>          // ResNet20
#include <gx/model/inception.hpp>             // InceptionV3
#include <gx/model/lenet.hpp>                 // LeNet
#include <gx/model/resnet.hpp>                // ResNet50
#include <gx/model/resnext.hpp>               // ResNeXt50
#include <gx/model/vgg.hpp>                   // Vgg
#include <gx/onednn/device.hpp>               // Device
#include <gx/trainer/predictor.hpp>           // Predictor

#include "../../sims/support/command_line.hpp"  // run_program

namespace {

namespace fs = std::filesystem;
using Paths = std::vector<fs::path>;
using Predictor = gx::Predictor<gx::ResNet50, gx::onednn::Device>;  // of any network

struct Arguments {
    Paths files{};
    fs::path weights{}, classes{}, json{};
    std::string model{};
    int top = 5, shorter = 0, batch = 8;
    bool imagenet = false;
};

template <class... M>
std::vector<gx::AnyModel> list() {
    return {gx::any_model<M>...};
}
const std::vector<gx::AnyModel>& known_models() {
    using namespace gx;
    static const auto all =
        list<ResNet18, ResNet34, ResNet50, ResNet101, ResNet152, ResNeXt50, ResNeXt101, Vgg11,
             Vgg13, Vgg16, Vgg19, Vgg11Bn, Vgg13Bn, Vgg16Bn, Vgg19Bn, AlexNet, InceptionV3, LeNet,
             ResNet8, ResNet20, ResNet32, ResNet44, ResNet56, ResNet110, FashionResNet<8>,
             FashionResNet<20>>();
    return all;
}
/// The network of the file, or of --model where the file does not name one.
const gx::AnyModel& model_of(const Arguments& a) {
    const std::string kept = gx::read_model_name(a.weights);
    const std::string& name = a.model.empty() ? kept : a.model;
    if (name.empty())
        throw gx::Error(
            fmt::format("--weights '{}' does not name its network: give --model, such as ResNet50",
                        a.weights.string()));
    std::vector<std::string> names;
    for (const gx::AnyModel& k : known_models()) {
        if (k.name == name) return k;
        names.emplace_back(k.name);
    }
    const std::string text = gx::printable(name);
    if (a.model.empty())
        throw gx::Error(
            fmt::format("--weights '{}' is of network '{}', which this program does not "
                        "know. Write one with gx::Predictor<YourModel, Device>",
                        a.weights.string(), text));
    throw gx::Error(fmt::format("--model '{}': there is no such network. There are: {}", text,
                                fmt::join(names, ", ")));
}

/// Reads a file, or a pipe that has a writer, as the shell's <(command) is: a link to one.
std::string contents(const fs::path& file, std::size_t bytes_most) {
    std::error_code unseen;
    if (fs::symlink_status(file, unseen).type() == fs::file_type::fifo)
        throw gx::Error("'" + file.string() +
                        "' is a named pipe, which may have no writer. Give a file, or <(command).");
    return gx::read_file(file, bytes_most);
}

gx::InputFormat format_of(const Arguments& a, const gx::AnyModel& model) {
    gx::InputFormat f{};
    if (!a.classes.empty()) f.class_names = gx::class_names_in(contents(a.classes, 1 << 24));
    if (!a.imagenet) return f;
    const gx::ImageShape shape = model.graph({}).input;
    f.shape = {shape.channels, shape.height, shape.width};
    f.mean = {0.485f, 0.456f, 0.406f};
    f.deviation = {0.229f, 0.224f, 0.225f};
    if (model.name == gx::InceptionV3::name) f.mean = f.deviation = {0.5f, 0.5f, 0.5f};
    f.classes = f.class_names.empty() ? 1000 : int(f.class_names.size());
    return f;
}

bool names_an_image(const fs::path& file) {
    std::string ending = file.extension().string();
    for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}
/// Appends the images below a folder, links to folders left out. What the system does not look at,
/// such as a link to itself or a locked folder, is appended too: reading it says what is wrong.
void append_images(const fs::path& folder, Paths& to) {
    std::error_code unlisted;
    for (fs::directory_iterator at(folder, unlisted), end; at != end; at.increment(unlisted)) {
        std::error_code unseen;
        const bool below = !at->is_symlink(unseen) && at->is_directory(unseen);
        if (below) append_images(at->path(), to);
        else if (names_an_image(at->path()) && (at->is_regular_file(unseen) || unseen))
            to.push_back(at->path());
    }
    if (unlisted) to.push_back(folder);
}
/// The files given, and the images in folders given, sorted.
Paths images_of(const Paths& given) {
    Paths all;
    for (const fs::path& path : given) {
        std::error_code unseen;
        if (!fs::is_directory(path, unseen)) {
            all.push_back(path);
            continue;
        }
        const std::size_t first = all.size();
        append_images(path, all);
        if (all.size() == first)
            throw gx::Error(fmt::format("folder '{}' has no files that end in .jpg, .jpeg or .png",
                                        path.string()));
        std::sort(all.begin() + std::ptrdiff_t(first), all.end());
    }
    return all;
}

/// Decodes files to the size and the channels of a network.
class Images {
public:
    Images(const gx::InputFormat& f, int shorter)
        : channels_(f.shape[0]),
          decoder_(gx::CentreRecipe({.to = {f.shape[2], f.shape[1]},
                                     .shorter = shorter > 0 ? shorter : default_side(f)})),
          colours_(std::size_t(3) * f.shape[1] * f.shape[2]) {
        if (channels_ != 3 && channels_ != 1)
            throw gx::Error(
                fmt::format("the network reads images of {} channels: files of images "
                            "are decoded to 3, or to 1 of grey",
                            channels_));
    }
    [[nodiscard]] std::vector<std::uint8_t> operator()(const fs::path& file) {
        std::error_code unseen;
        if (fs::is_directory(file, unseen))  // as append_images leaves them
            throw gx::Error("folder '" + file.string() +
                            "' can't be listed. Give a folder that this user may read.");
        const std::string bytes = contents(file, std::size_t{1} << 30);
        const std::string name = file.string();
        const std::span data(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
        decoder_.decode({.bytes = data, .where = {.file = name, .whole_file = true}}, {}, colours_);
        return channels_ == 3 ? colours_ : grey();
    }

private:
    /// As torchvision's recipes have it: 256 pixels for 224; small images whole.
    static int default_side(const gx::InputFormat& f) {
        const int side = std::min(f.shape[1], f.shape[2]);
        return side < 128 ? side : int(std::lround(side * 256.0 / 224));
    }
    /// ITU-R 601-2 luma, as Pillow's convert("L"): in 16 bits, rounded.
    [[nodiscard]] std::vector<std::uint8_t> grey() const {
        const std::size_t plane = colours_.size() / 3;
        std::vector<std::uint8_t> out(plane);
        for (std::size_t i = 0; i < plane; ++i)
            out[i] =
                static_cast<std::uint8_t>((colours_[i] * 19595u + colours_[plane + i] * 38470u +
                                           colours_[2 * plane + i] * 7471u + 0x8000u) >>
                                          16);
        return out;
    }

    int channels_;
    gx::RecipeDecoder<gx::CentreRecipe> decoder_;
    std::vector<std::uint8_t> colours_;
};

/// Whether the number of classes is what differs between --classes and the file of weights.
bool is_of_class_count(std::string_view sentence, const gx::AnyModel& model,
                       const gx::InputFormat& asked) {
    const gx::Graph graph = model.graph({});
    const gx::Label& bias = graph.parameters.back().name;  // one a class
    return asked.class_names.size() < 2 || sentence.find(" names of ") != sentence.npos ||
           sentence.find(fmt::format("'{}' has the shape", bias.view())) != sentence.npos;
}

int classify(const Arguments& a) {
    const gx::AnyModel& model = model_of(a);
    const Paths files = images_of(a.files);
    const gx::InputFormat asked = format_of(a, model);
    const auto named = [&] {
        try {
            return Predictor(model, a.weights, {.batch = a.batch, .format = asked});
        } catch (const gx::Error& e) {
            if (a.classes.empty() || !is_of_class_count(e.what(), model, asked)) throw;
            throw gx::Error(
                fmt::format("--classes '{}' names {} classes: are they this network's? {}",
                            a.classes.string(), asked.class_names.size(), e.what()));
        }
    };
    Predictor predictor = named();
    const gx::InputFormat& format = predictor.format();
    Images images(format, a.shorter);
    if (!a.json.empty()) std::signal(SIGPIPE, SIG_IGN);  // the file is wanted though `| head` ends
    gx::JsonWriter w;
    w.open('{').field("command", "classify").field("model", model.name).name("images").open('[');
    int failed = 0;
    for (std::size_t done = 0; done < files.size();) {
        std::vector<const fs::path*> names;
        std::vector<std::uint8_t> pixels;
        for (; done < files.size() && std::ssize(names) < a.batch; ++done) {
            try {
                const auto image = images(files[done]);
                pixels.insert(pixels.end(), image.begin(), image.end());
                names.push_back(&files[done]);
            } catch (const gx::Error& e) {
                ++failed;
                gx::print_error("gx_classify: {}\n", gx::printable(e.what()));
            }
        }
        if (names.empty()) continue;
        const std::vector<float> logits = predictor.logits(pixels);
        const auto classes = std::size_t(format.classes);
        for (std::size_t i = 0; i < names.size(); ++i) {
            const auto top = gx::top_of(std::span(logits).subspan(i * classes, classes), a.top,
                                        format.class_names);
            std::string line;
            w.open('{').field("file", names[i]->string()).name("top").open('[');
            for (const gx::Prediction& p : top) {
                line += fmt::format("{}{} {:.1f} %", line.empty() ? "" : ", ",
                                    gx::printable(p.name), 100 * p.probability);
                w.open('{').field("label", p.label).field("name", p.name);
                w.field("probability", p.probability).close('}');
            }
            w.close(']').close('}');
            line = fmt::format("{}: {}\n", gx::printable(names[i]->string()), line);
            (void)std::fputs(line.c_str(), stdout);
        }
    }
    if (!a.json.empty())
        gx::write_file(a.json, w.close(']').field("failed", failed).close('}').text() + "\n");
    return failed > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
    Arguments a;
    CLI::App app{"Names the classes of image files with a trained network.", "gx_classify"};
    app.add_option("files", a.files, "JPEG and PNG files, and folders of them")->required();
    app.add_option("--weights", a.weights,
                   "checkpoint of gx, or safetensors of torchvision's names")
        ->required();
    app.add_option("--model", a.model, "network, where the file does not name it, as ResNet50");
    app.add_flag("--imagenet", a.imagenet,
                 "images and normalisation of torchvision's ImageNet weights");
    app.add_option("--classes", a.classes, "file of class names, a line each");
    app.add_option("--top", a.top, "classes to print of each image (5)")
        ->check(gx::count_in(1, 100'000));
    app.add_option("--shorter", a.shorter,
                   "side to which an image is resized before its centre is cut (8/7 of the "
                   "network's; small networks: the network's)")
        ->check(gx::count_in(1, 100'000));
    app.add_option("--batch", a.batch, "images computed at once (8)")->check(gx::count_in(1, 4096));
    app.add_option("--json", a.json, "write the classes to a file");
    return gx::run_program(app, argc, argv, [&] {
        gx::expect_outputs({{"--json", a.json}}, {{"--weights", a.weights}});
        return classify(a);
    });
}
