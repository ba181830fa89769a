// Networks with torchvision's names, layouts and conventions: equal weights give equal logits.
#include <gx/trainer/weights.hpp>

#include <gtest/gtest.h>

#include <algorithm>  // sort
#include <cmath>      // exp2
#include <cstdlib>    // system, getenv

#include <zlib.h>  // crc32

#include <gx/model/alexnet.hpp>        // AlexNet
#include <gx/model/inception.hpp>      // InceptionV3
#include <gx/model/resnet.hpp>         // ResNet18 ... ResNet152
#include <gx/model/resnext.hpp>        // ResNeXt50
#include <gx/model/vgg.hpp>            // Vgg
#include <gx/onednn/device.hpp>        // Device
#include <gx/trainer/safetensors.hpp>  // read_safetensors
#include <support/files.hpp>           // Folder

#include "agreement.hpp"
#include "torchvision_fixture.hpp"

namespace {

using gx::Graph;
using torchvision_fixture::Network;

struct Model {
    std::string_view name;
    Graph (*graph)(const gx::GraphOptions&);
    const char* constructor;
};
constexpr Model models[] = {{"ResNet18", gx::graph<gx::ResNet18>, "resnet18"},
                            {"ResNet34", gx::graph<gx::ResNet34>, "resnet34"},
                            {"ResNet50", gx::graph<gx::ResNet50>, "resnet50"},
                            {"ResNet101", gx::graph<gx::ResNet101>, "resnet101"},
                            {"ResNet152", gx::graph<gx::ResNet152>, "resnet152"},
                            {"ResNeXt50", gx::graph<gx::ResNeXt50>, "resnext50_32x4d"},
                            {"AlexNet", gx::graph<gx::AlexNet>, "alexnet"},
                            {"Vgg11Bn", gx::graph<gx::Vgg11Bn>, "vgg11_bn"},
                            {"Vgg13", gx::graph<gx::Vgg13>, "vgg13"},
                            {"Vgg16", gx::graph<gx::Vgg16>, "vgg16"},
                            {"Vgg19", gx::graph<gx::Vgg19>, "vgg19"},
                            {"InceptionV3", gx::graph<gx::InceptionV3>, "inception_v3"}};

const Model& model_of(const Network& n) {
    return *std::ranges::find(models, std::string_view(n.name), &Model::name);
}
Graph graph_of(const Network& n) {
    return model_of(n).graph({.input = {3, n.side, n.side}, .classes = 10});
}

std::uint32_t crc32_of(std::string_view text) {
    return std::uint32_t(
        ::crc32_z(0, reinterpret_cast<const unsigned char*>(text.data()), text.size()));
}

// ---- The numbers of reference/oracle/torchvision_models.py ---------------------------
float number(std::uint32_t i, std::uint32_t stream) {
    std::uint32_t x = i * 0x9E3779B1u + stream * 0x85EBCA77u;
    x ^= x >> 15;
    x *= 0x2C1B3C6Du;
    x ^= x >> 12;
    return static_cast<float>(x >> 16) / 32768 - 1;
}
/// What weight() makes of numbers v for a tensor with this name and shape: v * by + plus.
struct Scale {
    float by = 0.25f, plus = 0;
};
Scale scale_of(std::string_view name, const std::vector<std::int64_t>& shape) {
    if (name.ends_with("running_var")) return {0.5f, 1.5f};
    if (shape.size() == 1) return {0.25f, name.ends_with(".weight") ? 1.25f : 0.0f};
    double fan_in = 1;
    for (std::size_t i = 1; i < shape.size(); ++i) fan_in *= double(shape[i]);
    return {float(std::exp2(std::floor(std::log2(6 / fan_in) / 2 + 0.5))), 0};
}
gx::Weights weights_of(const Graph& g) {
    gx::Weights w = gx::initial_weights(g, 0);
    const auto fill = [](std::vector<float>& flat, const auto& part, const auto& shape) {
        const std::string_view name = part.name.view();
        const std::uint32_t stream = crc32_of(name);
        const Scale scale = scale_of(name, shape);
        for (std::int64_t i = 0; i < part.count; ++i)
            flat[std::size_t(part.offset + i)] =
                number(std::uint32_t(i), stream) * scale.by + scale.plus;  // exact
    };
    const auto shapes = gx::tensor_shapes(g);
    for (std::size_t p = 0; p < shapes.size(); ++p) fill(w.parameters, g.parameters[p], shapes[p]);
    for (const gx::Statistic& s : g.statistics)
        fill(w.statistics, s, std::vector<std::int64_t>{s.count});
    return w;
}

std::vector<float> images_of(const Graph& g) {
    std::vector<float> images(2 * std::size_t(g.input.elements()));
    for (std::size_t i = 0; i < images.size(); ++i) images[i] = number(std::uint32_t(i), 1);
    return images;
}
std::vector<float> logits_of(const Graph& g, const gx::Weights& w,
                             const std::vector<float>& images) {
    const std::vector<std::int32_t> labels{0, 0};
    gx::onednn::Device device(g, {.batch = 2}, {.lanes = 1});
    agreement::load(device, w.parameters);
    std::ranges::copy(w.statistics, device.statistics().begin());
    (void)device.forward({images, labels, 2}, gx::Mode::evaluate);
    return device.logits();
}

/// A logit is one step: the roundings behind it are those of agreement::bound, forward alone. A
/// batch norm that evaluates adds the rounding of its mean and variance to what it reads.
double bound_of(const Graph& g) { return agreement::bound(g, 2); }

bool is_one_of(const Network& n, std::initializer_list<std::string_view> names) {
    return std::ranges::find(names, n.name) != names.end();
}
const bool runs_all = std::getenv("GX_LARGE_TESTS") != nullptr;

class Torchvision : public testing::TestWithParam<Network> {};

TEST_P(Torchvision, NamesAndShapesAreTheSame) {
    const Graph g = graph_of(GetParam());
    std::vector<std::string> lines;
    const auto add = [&](std::string_view name, const std::vector<std::int64_t>& shape) {
        std::string line(name);
        for (const std::int64_t n : shape) line += " " + std::to_string(n);
        lines.push_back(line + "\n");
    };
    const auto shapes = gx::tensor_shapes(g);
    for (std::size_t p = 0; p < shapes.size(); ++p) add(g.parameters[p].name.view(), shapes[p]);
    for (const gx::Statistic& s : g.statistics) add(s.name.view(), {s.count});
    std::ranges::sort(lines);
    std::string all;
    for (const std::string& line : lines) all += line;
    EXPECT_EQ(std::ssize(lines), GetParam().tensors);
    EXPECT_EQ(crc32_of(all), GetParam().crc32) << all;
}

TEST_P(Torchvision, LogitsAreTheSame) {
    const Network& n = GetParam();
    if (!runs_all &&
        is_one_of(n, {"ResNet34", "ResNet101", "ResNet152", "Vgg13", "Vgg16", "Vgg19"}))
        GTEST_SKIP() << "its layers are those of the others: set GX_LARGE_TESTS=1 to run it";
    const Graph g = graph_of(n);
    const auto logits = logits_of(g, weights_of(g), images_of(g));
    const std::vector<double> theirs(&n.logits[0][0], &n.logits[0][0] + 20);
    EXPECT_LE(agreement::apart(logits, theirs), bound_of(g));
    // The bound would be no proof if both images had these logits.
    const std::vector<double> first(theirs.begin(), theirs.begin() + 10),
        second(theirs.begin() + 10, theirs.end());
    EXPECT_GE(agreement::apart(first, second), 4 * bound_of(g));
}

// ---- Beside torchvision itself, where it is installed --------------------------------
/// Exit status of reference/oracle/torchvision_peer.py.
int peer(const std::string& arguments, bool quiet = false) {
    const char* const python = std::getenv("GX_TORCHVISION_PYTHON");
    return std::system((std::string(python ? python : "python3") +
                        " " GX_SOURCE_DIR "/reference/oracle/torchvision_peer.py " + arguments +
                        (quiet ? " 2>/dev/null" : ""))
                           .c_str());
}

TEST_P(Torchvision, ExchangesWeights) {
    const Network& n = GetParam();
    if (!runs_all && !is_one_of(n, {"ResNet18", "ResNeXt50", "AlexNet", "InceptionV3"}))
        GTEST_SKIP() << "its layers are those of the others: set GX_LARGE_TESTS=1 to run it";
    if (static const bool there = peer("ask", true) == 0; !there)
        GTEST_SKIP() << "python3 has no torchvision and safetensors: install them from PyPI, and "
                        "name their interpreter in GX_TORCHVISION_PYTHON";
    const testing_support::Folder folder;
    const std::string constructor = model_of(n).constructor, place = folder.path.string();
    ASSERT_EQ(peer("write " + constructor + " " + std::to_string(n.side) + " " + place), 0);
    const Graph g = graph_of(n);
    const gx::Weights weights = gx::read_weights(folder / "theirs.safetensors", g);
    const auto run = gx::read_safetensors(folder / "run.safetensors");
    const auto logits = logits_of(g, weights, run.tensors.at("images").values);
    EXPECT_LE(agreement::apart(logits, run.tensors.at("logits").values), bound_of(g));
    gx::write_weights(folder / "gx.safetensors", g, weights);
    EXPECT_EQ(peer("check " + constructor + " " + place), 0);
}

INSTANTIATE_TEST_SUITE_P(Each, Torchvision, testing::ValuesIn(torchvision_fixture::networks),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
