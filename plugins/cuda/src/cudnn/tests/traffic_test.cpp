#include <traffic.hpp>

#include <plans/chains.hpp>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include <gx/cuda/layer_kernels.hpp>
#include <gx/cuda_testing/cudnn.hpp>
#include <gx/cuda_testing/runtime.hpp>
#include <gx/model/sequence.hpp>

#include "../network_plan.hpp"
#include "gpu_step.hpp"

namespace {

using namespace gx;
using namespace gx::cuda;
using namespace gx::cuda_tests;
using cuda_testing::CudnnGpu;

std::map<std::string, std::pair<double, double>> by_name(const Graph& graph, StepShape shape) {
    std::map<std::string, std::pair<double, double>> all;
    for (const OperationTraffic& r : step_traffic(graph, std::move(shape))) {
        EXPECT_FALSE(all.contains(r.name)) << r.name << " has two rows";
        all[r.name] = {r.read, r.written};
    }
    return all;
}
using Bytes2 = std::pair<double, double>;

/// first, bn1, relu1, second, bn2; added to the input's convolution; relu; mean; fc; loss.
Graph small_block() {
    GraphBuilder b("block", {1, 4, 4}, 10);
    const int skip = b.conv2d(0, {.channels = 8, .window = Window::square(1)}, "first");
    int x = b.relu(b.batch_norm(skip, {}, "bn1"), "relu1");
    x = b.batch_norm(b.conv2d(x, {.channels = 8, .window = Window::square(3, 1, 1)}, "second"), {},
                     "bn2");
    x = b.relu(b.add(x, skip, "add"), "relu2");
    x = b.flatten(b.global_avg_pool(x, "mean"), "flatten");
    b.softmax_cross_entropy(b.linear(x, 10, true, "fc"), 0, "loss");
    return std::move(b).finish();
}
constexpr double maps = 2.0 * 8 * 4 * 4;  // bytes of an activation of 8 channels

// ---- By hand -----------------------------------------------------------------------------------

TEST(StepTraffic, OfOperationsApart) {
    const auto rows = by_name(small_block(), {.joined = false});
    EXPECT_EQ(rows.at("input, pack"), (Bytes2{16, 32}));
    EXPECT_EQ(rows.at("first, forward"), (Bytes2{32, maps}));
    EXPECT_EQ(rows.at("first, weight gradient"), (Bytes2{32 + maps, 0}));
    EXPECT_FALSE(rows.contains("first, input gradient")) << "images need none";
    EXPECT_EQ(rows.at("bn1, forward"), (Bytes2{2 * maps, maps}));
    EXPECT_EQ(rows.at("bn1, backward"), (Bytes2{4 * maps, maps}));
    EXPECT_EQ(rows.at("relu1, backward"), (Bytes2{2 * maps, maps}));
    EXPECT_EQ(rows.at("add, forward"), (Bytes2{2 * maps, maps}));
    EXPECT_EQ(rows.at("first, sum of gradients"), (Bytes2{2 * maps, maps}));
}

/// Weights of an operation and no others: read in E by each product; the weight gradient's row has
/// the optimizer's too.
TEST(StepTraffic, OfParametersIsOfAnOperationsOwn) {
    std::map<std::string, double> bytes;
    for (const OperationTraffic& r : step_traffic(small_block(), {.joined = false}))
        bytes[r.name] = r.parameter_bytes;
    EXPECT_EQ(bytes.at("second, forward"), 2 * 8 * 8 * 9);
    EXPECT_EQ(bytes.at("second, input gradient"), 2 * 8 * 8 * 9);
    EXPECT_EQ(bytes.at("second, weight gradient"), (2 * 2 + 4) * 8 * 8 * 9);
    EXPECT_EQ(bytes.at("fc, forward"), 2 * (8 * 10 + 10));
}

TEST(StepTraffic, OfJoinedBatchNorms) {
    const auto rows = by_name(small_block(), {});
    EXPECT_EQ(rows.at("bn1 + relu, forward"), (Bytes2{2 * maps, maps}));
    const double mask = 8 * 4 * 4 / 8;
    EXPECT_EQ(rows.at("bn2 + add + relu, forward"), (Bytes2{3 * maps, maps + mask}));
    EXPECT_EQ(rows.at("bn2, backward"), (Bytes2{4 * maps + mask, 2 * maps}));
    EXPECT_EQ(rows.at("first, sum of gradients"), (Bytes2{2 * maps, maps})) << "no batch norm's";
    EXPECT_FALSE(rows.contains("relu1, forward"));
    EXPECT_FALSE(rows.contains("add, forward"));
}

bool all(DnnFusion, const Op&) { return true; }
bool but_gradients_of_norms(DnnFusion f, const Op&) {
    return f != DnnFusion::input_gradient_of_norm && f != DnnFusion::weight_gradient_of_norm;
}

TEST(StepTraffic, OfFusions) {
    const auto rows = by_name(small_block(), {.takes = but_gradients_of_norms});
    EXPECT_EQ(rows.at("bn1 + second, forward"), (Bytes2{maps, maps}));
    EXPECT_FALSE(rows.contains("bn1, statistics")) << "they come with the convolution";
    EXPECT_EQ(rows.at("second, input gradient + bn1's sums"), (Bytes2{2 * maps, maps}));
    EXPECT_EQ(rows.at("bn1, backward without sums"), (Bytes2{2 * maps, maps}));
    EXPECT_EQ(rows.at("bn2 + add + relu, forward"), (Bytes2{2 * maps, maps + 16}));
}
TEST(StepTraffic, OfGradientsOfABatchNormInFrontOfAConvolutions) {
    const auto rows = by_name(small_block(), {.takes = all});
    EXPECT_FALSE(rows.contains("bn1, backward without sums"));
    EXPECT_EQ(rows.at("first, weight gradient"), (Bytes2{32 + 2 * maps, 0}));
    EXPECT_EQ(rows.at("second, weight gradient"), (Bytes2{2 * maps, 0}))
        << "no convolution sums the gradient of the batch norm behind it";
    EXPECT_TRUE(rows.contains("bn2, backward"));
}

TEST(StepTraffic, OfStatisticsFrom32ChannelsInEightsOn) {
    for (const int channels : {24, 32, 36, 40})
        for (const int outputs : {8, 9}) {
            GraphBuilder b("convolution", {channels, 4, 4}, 10);
            (void)b.conv2d(0, {.channels = outputs, .window = Window::square(1)}, "conv");
            b.softmax_cross_entropy(
                b.linear(b.flatten(b.global_avg_pool(0, "mean"), "flatten"), 10, true, "fc"), 0,
                "loss");
            const Graph graph = std::move(b).finish();
            const auto takes = device_fusions(graph);
            const bool in_eights = channels != 36 && outputs == 8;
            EXPECT_EQ(takes(DnnFusion::statistics, graph.ops[1]), channels >= 32 && in_eights)
                << channels << " " << outputs;
            EXPECT_FALSE(takes(DnnFusion::normalized_input, graph.ops[1]));
        }
}

// ---- Of any ------------------------------------------------------------------------------------

TEST(StepTraffic, ShrinksWithEachFusion) {
    const Graph graph = gx::graph<ResNet50>();
    EXPECT_TRUE(rc::check("a fusion more is never more traffic", [&] {
        std::set<DnnFusion> taken;
        for (const DnnFusion f : dnn_fusions)
            if (*rc::gen::arbitrary<bool>()) taken.insert(f);
        const StepShape shape{.takes = [&](DnnFusion f, const Op&) { return taken.contains(f); }};
        const double before = activation_bytes(step_traffic(graph, shape));
        taken.insert(*rc::gen::elementOf(dnn_fusions));
        RC_ASSERT(activation_bytes(step_traffic(graph, shape)) <= before);
    }));
}

TEST(StepTraffic, CountsTheProductsOfAnImageThreeTimes) {
    const Graph graph = gx::graph<ResNet50>();
    double flops = 0;
    for (const OperationTraffic& r : step_traffic(graph, {})) flops += r.flops;
    EXPECT_DOUBLE_EQ(flops, 2.0 * (3.0 * double(graph.macs()) - double(graph.ops[1].macs)))
        << "all but the images' gradient";
}

/// Rows that a planned unit of cuda::Device gives rise to.
void expect_rows(std::set<std::string>& names, const cuda::detail::Unit& u) {
    using Kind = cuda::detail::GradientRoute::Kind;
    const std::string name(u.op->name.view());
    switch (u.op->kind) {
        case OpKind::input: names.insert("input, pack"); return;
        case OpKind::flatten: return;
        case OpKind::batch_norm:
            names.insert(name + (u.norms_only ? ", statistics"
                                 : u.adds     ? " + add + relu, forward"
                                 : u.relu     ? " + relu, forward"
                                              : ", forward"));
            names.insert(name + ", backward");
            break;
        case OpKind::conv2d:
        case OpKind::linear:
            names.insert(name + ", forward");
            names.insert(name + ", weight gradient");
            if (u.op->parameter_count > 1) names.insert(name + ", bias gradient");
            if (u.gradients[0].kind != Kind::none) names.insert(name + ", input gradient");
            break;
        default: names.insert({name + ", forward", name + ", backward"});
    }
}

TEST(StepTraffic, OfJoinedOperationsIsOfWhatADeviceQueues) {
    cuda_testing::reset({.check_at_exit = false});
    cuda_testing::reset_cudnn();
    const Graph graph = gx::graph<ResNet50>();
    Dnn dnn(nullptr, {.compute = ElementType::fp16, .fp32_weight_gradients = false});
    const cuda::detail::NetworkPlan plan(graph, dnn, 2, ElementType::fp16);
    std::set<std::string> queued{"optimizer"}, rows;
    std::size_t added = 0, sums = 0;
    for (const cuda::detail::Unit& u : plan.units()) {
        expect_rows(queued, u);
        for (const auto& g : u.gradients) added += g.kind == cuda::detail::GradientRoute::Kind::add;
    }
    for (const auto& [name, bytes] : by_name(graph, {}))
        if (name.ends_with("sum of gradients")) ++sums;
        else rows.insert(name);
    EXPECT_EQ(rows, queued);
    EXPECT_EQ(sums, added);
}

// ---- Executed ----------------------------------------------------------------------------------

/// Sizes of activations, their gradients, masks and places of maxima; none is of anything else.
std::set<std::size_t> activation_sizes(const Graph& g, std::size_t batch) {
    const auto image_bytes = std::size_t(device_shape(g).input_bytes);
    std::set<std::size_t> sizes, others;
    const auto elements = [&](int t) {
        return batch * std::size_t(g.tensors[std::size_t(t)].elements());
    };
    for (const Op& op : g.ops) {
        if (op.kind == OpKind::input) sizes.insert(std::size_t(batch) * image_bytes);
        else if (op.kind != OpKind::softmax_cross_entropy) sizes.insert(2 * elements(op.output));
        if (op.kind == OpKind::add) sizes.insert(elements(op.output) / 8);
        if (op.kind == OpKind::max_pool) sizes.insert(elements(op.output));
        if (op.kind != OpKind::batch_norm) continue;
        const ImageShape& s = g.tensors[std::size_t(op.output)];
        const BatchNormShape rows{std::int64_t(batch) * s.height * s.width, s.channels};
        const auto channels = std::size_t(s.channels);
        others.insert({sizeof(ChannelNorm) * channels, sizeof(double) * 2 * channels,
                       sizeof(double) * (std::size_t(batch_norm_scratch(rows)) - 2 * channels)});
    }
    for (const Parameter& p : g.parameters)
        others.insert({2 * std::size_t(p.count), 4 * std::size_t(p.count)});
    for (const std::size_t other : others) EXPECT_FALSE(sizes.contains(other)) << other;
    return sizes;
}

std::string kind_of_kernel(const std::string& name) {
    static const std::map<std::string, std::string> kinds{
        {"pack blocks", "input"},
        {"pack images", "input"},
        {"moments of blocks", "batch norm, forward"},
        {"normalise rows", "batch norm, forward"},
        {"normalise both", "batch norm, forward"},
        {"gradient sums of blocks", "batch norm, backward"},
        {"gradient of the input", "batch norm, backward"},
        {"relu", "relu, forward"},
        {"gradient of relu", "relu, backward"},
        {"add maps", "add, forward"},
        {"accumulate", "sum of gradients"},
        {"cuDNN CONVOLUTION_FORWARD", "product, forward"},
        {"cuDNN CONVOLUTION_FORWARD, POINTWISE 0", "product, forward"},
        {"cuDNN CONVOLUTION_FORWARD, GEN_STATS", "product, forward"},
        {"cuDNN CONVOLUTION_BACKWARD_DATA", "product, input gradient"},
        {"cuDNN CONVOLUTION_BACKWARD_FILTER", "product, weight gradient"},
        {"cuDNN REDUCTION", "product, bias gradient"},
        {"cuDNN RESAMPLE_FWD", "pool, forward"},
        {"cuDNN RESAMPLE_BWD", "pool, backward"},
        {"average pool", "pool, forward"},
        {"gradient of an average pool", "pool, backward"},
        {"gradient of the loss", "loss, backward"}};
    const auto at = kinds.find(name);
    return at == kinds.end() ? "" : at->second;
}
std::string kind_of_row(const Graph& g, const std::string& name) {
    if (name == "optimizer") return "";
    if (name.ends_with("sum of gradients")) return "sum of gradients";
    const std::string step = name.substr(name.rfind(", "));
    const auto op = std::ranges::find(g.ops, name.substr(0, name.find_first_of(" ,")),
                                      [](const Op& o) { return o.name.view(); });
    switch (op == g.ops.end() ? OpKind::flatten : op->kind) {
        case OpKind::input: return "input";
        case OpKind::batch_norm:
            return "batch norm" + (step == ", statistics" ? ", forward" : step);
        case OpKind::conv2d:
        case OpKind::linear: return "product" + step;
        case OpKind::max_pool:
        case OpKind::avg_pool: return "pool" + step;
        case OpKind::relu: return "relu" + step;
        case OpKind::add: return "add" + step;
        case OpKind::softmax_cross_entropy: return step == ", backward" ? "loss" + step : "";
        default: return "";
    }
}

struct Ran {
    CudnnGpu gpu;
    ElementType element;
    bool sums;  ///< come with convolutions
};
constexpr Ran ran[] = {{CudnnGpu::h100, ElementType::fp16, true},
                       {CudnnGpu::h100, ElementType::bf16, false},
                       {CudnnGpu::v100, ElementType::fp16, false}};

/// What kernels moved, by their kind, in the order in which they ran.
struct Access {
    double bytes;
    bool writes;
};
using Accesses = std::map<std::string, std::vector<Access>>;

Accesses accesses_of_a_step(const Graph& graph, int batch, const Ran& r) {
    start(r.gpu);
    const auto sizes = activation_sizes(graph, std::size_t(batch));
    GpuRun run(graph, {.batch = batch, .compute = r.element});
    const Images data(graph, batch, 3);
    Accesses moved;
    cuda_testing::watch_accesses(
        [&](const std::string& operation, const void*, std::size_t bytes, bool writes) {
            const std::string kind = kind_of_kernel(operation);
            if (!kind.empty() && sizes.contains(bytes))
                moved[kind].push_back({double(bytes), writes});
        });
    (void)run.forward(data.batch(), Mode::train);
    (void)run.backward(1);
    EXPECT_TRUE(run.queue().wait(run.queue().record()).complete());
    return moved;
}

/// The table against the tensors that each kernel of a step on the doubles reads and writes.
/// Kernels of a kind run in the order of the rows of that kind, of backward in reverse: a row is of
/// the next ones, until they have moved its bytes.
void expect_moved(const Graph& graph, const Ran& r) {
    SCOPED_TRACE(std::string(to_string(r.element)) +
                 (r.gpu == CudnnGpu::v100 ? " on a V100" : " on an H100"));
    constexpr int batch = 3;  // a factor that no size of a weight has
    const Accesses moved = accesses_of_a_step(graph, batch, r);
    StepShape shape = device_shape(graph);
    if (!r.sums) shape.takes = {};
    std::map<std::string, std::vector<OperationTraffic>> rows;
    for (const OperationTraffic& row : step_traffic(graph, shape)) {
        const std::string kind = kind_of_row(graph, row.name);
        if (kind.empty()) continue;
        auto& all = rows[kind];
        all.insert(kind.ends_with("forward") ? all.end() : all.begin(), row);
        if (kind == "input") all.back().read = 0;  // of no activation
    }
    for (const auto& [kind, accesses] : moved)
        EXPECT_TRUE(rows.contains(kind)) << "no row is of " << kind;
    for (const auto& [kind, all] : rows) {
        auto next = moved.contains(kind) ? moved.at(kind) : std::vector<Access>{};
        std::size_t i = 0;
        for (const OperationTraffic& row : all) {
            Bytes2 sum{0, 0};
            const Bytes2 expected{batch * row.read, batch * row.written};
            for (; i < next.size() && sum != expected; ++i)
                (next[i].writes ? sum.second : sum.first) += next[i].bytes;
            ASSERT_EQ(sum, expected) << row.name;
        }
        EXPECT_EQ(i, next.size()) << kind << ": kernels behind those of all rows";
    }
}
TEST(StepTraffic, IsWhatADeviceMoves) {
    for (const Ran& r : ran) expect_moved(gx::graph<ResNet50>({.input = {3, 32, 32}}), r);
}
/// Without batch norms, which would take them: a ReLU, an addition, and a ReLU of that.
TEST(StepTraffic, OfElementwiseLayersIsWhatADeviceMoves) {
    GraphBuilder b("elementwise", {3, 16, 16}, 5);
    const int x = b.relu(b.conv2d(0, {8, Window::square(7, 2, 3)}, "stem"), "first");
    const int y = b.conv2d(x, {8, Window::square(3, 1, 1)}, "body");
    const int z = b.global_avg_pool(b.relu(b.add(y, x, "sum"), "second"), "mean");
    b.softmax_cross_entropy(b.linear(b.flatten(z, "flatten"), 5, true, "fc"), 0, "loss");
    const Graph graph = std::move(b).finish();
    for (const Ran& r : ran) expect_moved(graph, r);
}

/// Branches of 4, 3 and 2 channels of 16 pixels in fp16: each is copied once, and cut once.
TEST(StepTraffic, OfAListOfJoinedBranches) {
    GraphBuilder b("list", {3, 4, 4}, 3);
    const int one = b.conv2d(0, {.channels = 4}, "one"), two = b.conv2d(0, {.channels = 3}, "two");
    int x = concat(b, concat(b, one, two, "inner"), b.conv2d(0, {.channels = 2}, "three"), "outer");
    x = b.linear(b.flatten(b.relu(x, "relu"), "flatten"), 3, true, "fc");
    b.softmax_cross_entropy(x, 0, "loss");
    const Graph g = std::move(b).finish();
    const auto joined = by_name(g, {});
    for (const std::string pass : {", forward", ", backward"}) {
        EXPECT_EQ(joined.at("inner.concat" + pass), (Bytes2{2 * 7 * 16, 2 * 7 * 16}));
        EXPECT_EQ(joined.at("outer.concat" + pass), (Bytes2{2 * 2 * 16, 2 * 2 * 16}));
    }
    EXPECT_EQ(by_name(g, {.joined = false}).at("outer.concat, forward"),
              (Bytes2{2 * 9 * 16, 2 * 9 * 16}));
}

// ---- ResNet-50's -------------------------------------------------------------------------------

TEST(ResNet50Traffic, IsWithinItsLimits) {
    const PlannedNetwork network = planned_networks().front();
    std::ifstream in(GX_CUDNN_PLANS "/h100.json");
    const FusionAnswers h100(std::string(std::istreambuf_iterator<char>(in), {}), network);
    std::map<std::string, double> megabytes;
    for (const StepChain& chain : step_chains(network.graph, h100))
        megabytes[chain.name] = activation_bytes(step_traffic(network.graph, chain.shape)) / 1e6;
    EXPECT_NEAR(megabytes.at("plain"), 474.8, 0.1);
    EXPECT_LE(megabytes.at("device"), 342);
    EXPECT_LE(megabytes.at("sums"), 322);
    EXPECT_LE(megabytes.at("h100"), 283);
    EXPECT_LE(megabytes.at("all"), 266);
    std::set<DnnFusion> refused;
    for (const FusionAnswers::Refusal& r : h100.refusals()) {
        refused.insert(r.fusion);
        EXPECT_EQ(r.layers.size(), r.asked) << "of all layers";
    }
    EXPECT_EQ(refused,
              (std::set{DnnFusion::input_gradient_of_norm, DnnFusion::weight_gradient_of_norm}));
}

TEST(FusionAnswers, OfAFile) {
    const PlannedNetwork network{small_block(), 2, ElementType::fp16};
    const auto file = [](std::string_view name) {
        return R"({"gpu": "H100", "cudnn": "9", "networks": [{"network": ")" + std::string(name) +
               R"(", "batch": 2, "compute": "fp16", "plans": [
            {"pattern": "layer", "layers": ["first"], "plans": [{}]},
            {"pattern": "convolution + statistics", "layers": ["first"], "plans": [{}]},
            {"pattern": "convolution + statistics", "layers": ["second"],
             "plans": {"refused": "0 engines proposed"}}]}]})";
    };
    const FusionAnswers answers(file("block"), network);
    const Op &first = network.graph.ops[1], &second = network.graph.ops[4];
    EXPECT_TRUE(answers.takes(DnnFusion::statistics, first));
    EXPECT_FALSE(answers.takes(DnnFusion::normalized_input, first)) << "not asked";
    EXPECT_FALSE(answers.takes(DnnFusion::statistics, second));
    ASSERT_EQ(answers.refusals().size(), 1u);
    EXPECT_EQ(answers.refusals()[0].layers, (std::vector<std::string>{"second"}));
    EXPECT_EQ(answers.refusals()[0].asked, 2u);
    EXPECT_THROW(FusionAnswers(file("another"), network), Error);
}

}  // namespace
