#include <gx/onnx/export.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

#include <cmath>    // sqrt
#include <cstdlib>  // system, getenv
#include <set>      // names

#include <onnx/onnx_pb.h>                         // ModelProto
#include <onnx/checker.h>                         // check_model
#include <onnx/shape_inference/implementation.h>  // InferShapes

#include <gx/core/rng.hpp>             // Rng
#include <gx/model/bert.hpp>           // BertBase
#include <gx/model/cifar_resnet.hpp>   // ResNet8
#include <gx/model/inception.hpp>      // InceptionV3
#include <gx/model/lenet.hpp>          // LeNet
#include <gx/model/layers.hpp>         // Network
#include <gx/model/sequence.hpp>       // concat
#include <gx/reference/device.hpp>     // Device
#include <gx/trainer/checkpoint.hpp>   // InputFormat, to_json
#include <gx/trainer/safetensors.hpp>  // read_safetensors
#include <gx/trainer/weights.hpp>      // initial_weights
#include <support/files.hpp>           // Folder, error_of

namespace {

using namespace testing_support;
using gx::Graph;
using gx::OpKind;
using gx::Weights;

/// Weights of a network that has been trained: statistics are not those of the start.
Weights trained(const Graph& g) {
    Weights w = gx::initial_weights(g, 4);
    const gx::Rng r(4, "statistics");
    for (const gx::Parameter& p : g.parameters)
        for (std::int64_t i = p.offset; i < p.offset + p.count; ++i)
            if (p.role != gx::ParameterRole::weight)
                w.parameters[std::size_t(i)] =
                    p.role == gx::ParameterRole::gamma ? 1 : 0.1f * r.normal(std::uint64_t(i));
    for (std::size_t i = 0; i < w.statistics.size(); ++i) w.statistics[i] += 0.25f * r.uniform(i);
    return w;
}
void exported(const std::filesystem::path& file, const Graph& g, const Weights& w,
              const std::map<std::string, std::string>& metadata = {}) {
    write_text(file, gx::onnx::to_onnx(g, w.parameters, w.statistics, metadata));
}
::onnx::ModelProto model_of(const std::filesystem::path& file) {
    ::onnx::ModelProto model;
    EXPECT_TRUE(model.ParseFromString(read_text(file)));
    return model;
}

struct Grouped
    : gx::Network<gx::ImageShape{3, 17, 16}, 5, gx::Conv<16, 3, 1, 1>, gx::BatchNorm, gx::ReLU,
                  gx::Conv<24, 3, 2, 1, gx::Bias::yes, 4>, gx::ReLU, gx::AvgPool<3, 2, 1>,
                  gx::MaxPool<3, 1, 1>, gx::Dropout<0.5>, gx::Linear<9>, gx::ReLU, gx::Classifier> {
    static constexpr std::string_view name = "Grouped";
};

// ---- Networks in which (N, C) meets (N, C, 1, 1) --------------------------------------------
using gx::BatchNorm, gx::Classifier, gx::Conv, gx::Flatten, gx::GlobalAvgPool, gx::ImageShape;
using gx::Linear, gx::MaxPool, gx::ReLU;

/// README's.
struct MyNet : gx::Network<ImageShape{1, 28, 28}, 10, Conv<16, 3, 1, 1>, BatchNorm, ReLU,
                           GlobalAvgPool, Classifier> {
    static constexpr std::string_view name = "MyNet";
};
struct PooledDropout : gx::Network<ImageShape{2, 9, 7}, 4, Conv<16, 3, 1, 1>, GlobalAvgPool,
                                   gx::Dropout<0.3>, Classifier> {
    static constexpr std::string_view name = "PooledDropout";
};
struct PooledReLU
    : gx::Network<ImageShape{1, 8, 8}, 10, Conv<16, 3, 1, 1>, GlobalAvgPool, ReLU, Classifier> {
    static constexpr std::string_view name = "PooledReLU";
};
struct PooledToOne : gx::Network<ImageShape{1, 2, 2}, 10, Conv<16, 1>, MaxPool<2>, Linear<8>,
                                 BatchNorm, ReLU, Classifier> {
    static constexpr std::string_view name = "PooledToOne";
};
struct PixelIn : gx::Network<ImageShape{5, 1, 1}, 10, Linear<8>, ReLU, Classifier> {
    static constexpr std::string_view name = "PixelIn";
};
struct ConvToOne : gx::Network<ImageShape{5, 8, 8}, 6, Conv<10, 8>, Linear<8>, ReLU, Classifier> {
    static constexpr std::string_view name = "ConvToOne";
};
struct FlatConv : gx::Network<ImageShape{1, 4, 4}, 10, Flatten, Conv<6, 1>, ReLU, Conv<7, 1>,
                              Flatten, Conv<8, 1>, Classifier> {
    static constexpr std::string_view name = "FlatConv";
};
struct FlatPool : gx::Network<ImageShape{1, 4, 4}, 10, Linear<8>, BatchNorm, ReLU, MaxPool<1>,
                              GlobalAvgPool, Linear<9>, GlobalAvgPool, Classifier> {
    static constexpr std::string_view name = "FlatPool";
};
struct ConvLogits
    : gx::Network<ImageShape{3, 6, 6}, 5, Conv<8, 3>, ReLU, Conv<5, 1>, GlobalAvgPool> {
    static constexpr std::string_view name = "ConvLogits";
};
/// Adds and concatenates a tensor to itself flattened, either first; three layers read it flat.
struct Joined {
    static constexpr std::string_view name = "Joined";
    static constexpr ImageShape input{2, 6, 6};
    static constexpr int classes = 5;
    static constexpr int describe(gx::GraphBuilder& b, int x) {
        x = GlobalAvgPool::describe(b, Conv<8, 3>::describe(b, x, "conv"), "pool");
        const int dropped = b.dropout(x, 0.5, "dropout");
        const int flat = b.flatten(x, "flatten");
        const int image_first = b.add(x, flat, "add1");
        const int sum = b.add(image_first, b.add(flat, dropped, "add2"), "add3");
        const int all = gx::concat(b, gx::concat(b, x, flat, "join1"), sum, "join2");
        const int of_image = b.linear(x, 8, true, "fc1");
        const int linear = b.add(of_image, b.linear(dropped, 8, true, "fc2"), "add4");
        const int mixed = Conv<8, 1>::describe(b, gx::concat(b, linear, all, "join3"), "mix");
        return Classifier::describe(b, gx::concat(b, mixed, linear, "join4"), "fc3");
    }
};

struct Network {
    const char* name;
    Graph graph;
    Weights weights = trained(graph);
};
const std::vector<Network>& networks() {
    static const std::vector<Network> all{
        {"LeNet", gx::graph<gx::LeNet>()},
        {"ResNet8", gx::graph<gx::ResNet8>()},
        {"Grouped", gx::graph<Grouped>()},
        {"InceptionV3", gx::graph<gx::InceptionV3>({.input = {3, 75, 75}, .classes = 7})},
        {"MyNet", gx::graph<MyNet>()},
        {"PooledDropout", gx::graph<PooledDropout>()},
        {"PooledReLU", gx::graph<PooledReLU>()},
        {"PooledToOne", gx::graph<PooledToOne>()},
        {"PixelIn", gx::graph<PixelIn>()},
        {"ConvToOne", gx::graph<ConvToOne>()},
        {"FlatConv", gx::graph<FlatConv>()},
        {"FlatPool", gx::graph<FlatPool>()},
        {"ConvLogits", gx::graph<ConvLogits>()},
        {"Joined", gx::graph<Joined>()}};
    return all;
}

class Exported : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Each, Exported, testing::Range(std::size_t{0}, networks().size()),
                         [](const auto& test) { return networks()[test.param].name; });

TEST_P(Exported, IsAModelThatOnnxTakesAndInfersTheShapesOf) {
    const Folder folder;
    const Graph& g = networks()[GetParam()].graph;
    exported(folder / "f", g, networks()[GetParam()].weights);
    ::onnx::ModelProto model = model_of(folder / "f");
    ::onnx::checker::check_model(model);  // throws
    std::set<std::string> names;
    for (const auto& node : model.graph().node()) names.insert(node.name());
    EXPECT_EQ(std::ssize(names), model.graph().node_size()) << "onnxruntime wants each once";
    const ::onnx::ShapeInferenceOptions strict(true, 1);  // throws where a node's inputs don't fit
    ::onnx::shape_inference::InferShapes(model, ::onnx::OpSchemaRegistry::Instance(), strict);
    int found = 0;
    for (const auto& value : model.graph().value_info()) {
        const std::string& name = value.name();
        const auto colon = name.rfind(':');
        if (colon == name.npos || name.find('/') != name.npos) continue;  // of no operation
        const auto& dims = value.type().tensor_type().shape();
        const gx::ImageShape s = g.tensors[std::stoul(name.substr(colon + 1))];
        ASSERT_GE(dims.dim_size(), 2) << name;
        EXPECT_EQ(dims.dim(0).dim_param(), "N");
        EXPECT_EQ(dims.dim(1).dim_value(), s.channels) << name;
        EXPECT_EQ(dims.dim_size() > 2 ? dims.dim(2).dim_value() : 1, s.height) << name;
        EXPECT_EQ(dims.dim_size() > 2 ? dims.dim(3).dim_value() : 1, s.width) << name;
        ++found;
    }
    int expected = 0;
    for (const gx::Op& op : g.ops)
        expected += op.kind != OpKind::input && op.kind != OpKind::dropout &&
                    op.kind != OpKind::softmax_cross_entropy;
    EXPECT_EQ(found, expected) << "a shape for each operation";
}

/// sqrt(sum of squares of fan-ins) roundings, as plugins/onednn/tests/agreement.hpp derives, each
/// of 2^-24, 8 deviations of them; onnxruntime's fused batch norms and Winograd lose 8 times that.
double bound(const Graph& g) {
    double squares = 0;
    for (const gx::Op& op : g.ops)
        squares += op.parameter_count > 0
                       ? 2.0 * g.parameters[std::size_t(op.first_parameter)].fan_in
                       : 1.0;
    return 8 * 8 * 0x1p-24 * std::sqrt(squares);
}

TEST_P(Exported, HasTheLogitsOfTheReferenceInOnnxruntime) {
    const char* const named = std::getenv("GX_ONNXRUNTIME_PYTHON");
    const std::string script = std::string(named ? named : GX_PEERS "/bin/python") +
                               " " GX_SOURCE_DIR "/plugins/onnx/tests/run_onnx.py";
    if (static const bool there = std::system((script + " 2>/dev/null").c_str()) == 0; !there)
        GTEST_SKIP() << "there is no interpreter with PyPI's onnxruntime and safetensors: name one "
                        "in GX_ONNXRUNTIME_PYTHON";
    const Folder folder;
    const Graph& g = networks()[GetParam()].graph;
    const Weights& w = networks()[GetParam()].weights;
    exported(folder / "f.onnx", g, w);
    std::vector<float> images(2 * std::size_t(g.input.elements()));
    const gx::Rng r(1, "images");
    for (std::size_t i = 0; i < images.size(); ++i) images[i] = r.normal(i);
    gx::write_safetensors(
        folder / "run", {{"images", {2, g.input.channels, g.input.height, g.input.width}, images}});
    ASSERT_EQ(std::system((script + " " + (folder / "f.onnx").string() + " " +
                           (folder / "run").string() + " " + (folder / "logits").string())
                              .c_str()),
              0);
    const auto theirs = gx::read_safetensors(folder / "logits").tensors.at("logits").values;
    gx::reference::Device device(g, {.batch = 2});
    device.update([&](std::span<float> mine) { std::ranges::copy(w.parameters, mine.begin()); });
    std::ranges::copy(w.statistics, device.statistics().begin());
    const std::vector<std::int32_t> labels{0, 0};
    (void)device.forward({images, labels, 2}, gx::Mode::evaluate);
    const auto mine = device.activation(g.ops.back().inputs[0]);
    ASSERT_EQ(theirs.size(), mine.size());
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < mine.size(); ++i) {
        difference += (theirs[i] - mine[i]) * (theirs[i] - mine[i]);
        size += mine[i] * mine[i];
    }
    EXPECT_GT(size, 0);
    EXPECT_LE(std::sqrt(difference / size), bound(g));
}

// ---- Cases worked by hand -----------------------------------------------------------
TEST(ToOnnx, KeepsTheImageFormatAndTheNames) {
    const Folder folder;
    const Graph g = gx::graph<gx::LeNet>();
    const gx::InputFormat f{
        .shape = {1, 28, 28}, .mean = {0.5f}, .deviation = {0.25f}, .classes = 10};
    exported(folder / "f", g, trained(g), {{"images", to_json(f)}});
    const auto model = model_of(folder / "f");
    ASSERT_EQ(model.metadata_props_size(), 1);
    EXPECT_EQ(model.metadata_props(0).value(), to_json(f));
    EXPECT_EQ(model.graph().name(), "LeNet");
    EXPECT_EQ(model.graph().initializer(0).name(), "conv1.weight");
    EXPECT_EQ(model.graph().initializer(0).dims_size(), 4);
    EXPECT_EQ(model.graph().node(0).op_type(), "Conv");
    EXPECT_EQ(model.graph().input(0).type().tensor_type().shape().dim(2).dim_value(), 28);
}

TEST(ToOnnx, PutsANodeOfAnotherRankOnceBetween) {
    const auto types = [](const Graph& g) {
        const Folder folder;
        exported(folder / "f", g, trained(g));
        const auto model = model_of(folder / "f");
        std::string all;
        for (const auto& node : model.graph().node()) all += node.op_type() + " ";
        return all;
    };
    EXPECT_EQ(types(gx::graph<MyNet>()),
              "Conv BatchNormalization Relu AveragePool Flatten Gemm Identity ");
    EXPECT_EQ(types(gx::graph<FlatConv>()),
              "Flatten Unsqueeze Conv Relu Conv Flatten Unsqueeze Conv Flatten Gemm Identity ");
    EXPECT_EQ(types(gx::graph<Joined>()),
              "Conv AveragePool Flatten Flatten Add Add Add Concat Concat Gemm Gemm Add Concat "
              "Unsqueeze Conv Flatten Concat Gemm Identity ");
}

TEST(ToOnnx, RefusesWhatNoDeviceComputes) {
    const Graph g = gx::graph<gx::BertBase>();
    EXPECT_TRUE(holds(error_of([&] { (void)gx::onnx::to_onnx(g, {}, {}); }),
                      "'BERT-12x768' is timed only"));
}

}  // namespace
