#include <traffic.hpp>

#include <plans/chains.hpp>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <set>

#include <gx/cuda_testing/cudnn.hpp>
#include <gx/cuda_testing/runtime.hpp>

#include "../network_plan.hpp"

namespace {

using namespace gx;
using namespace gx::cuda;

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

TEST(StepTraffic, OfJoinedBatchNorms) {
    const auto rows = by_name(small_block(), {});
    EXPECT_EQ(rows.at("bn1 + relu, forward"), (Bytes2{2 * maps, maps}));
    const double mask = 8 * 4 * 4 / 8;
    EXPECT_EQ(rows.at("bn2 + add + relu, forward"), (Bytes2{3 * maps, maps + mask}));
    EXPECT_EQ(rows.at("bn2, backward"), (Bytes2{4 * maps + 2 * mask, 2 * maps}));
    EXPECT_FALSE(rows.contains("relu1, forward"));
    EXPECT_FALSE(rows.contains("add, forward"));
}

TEST(StepTraffic, OfFusions) {
    const std::vector<DnnFusion> all(dnn_fusions.begin(), dnn_fusions.end());
    const auto rows = by_name(small_block(), {.fusions = all});
    EXPECT_EQ(rows.at("bn1 + second, forward"), (Bytes2{maps, maps}));
    EXPECT_FALSE(rows.contains("bn1, statistics")) << "they come with the convolution";
    EXPECT_EQ(rows.at("second, input gradient + bn1's sums"), (Bytes2{2 * maps, maps}));
    EXPECT_EQ(rows.at("bn1, backward without sums"), (Bytes2{2 * maps, maps}));
    EXPECT_EQ(rows.at("bn2 + add + relu, forward"), (Bytes2{2 * maps, maps + 16}));
}

// ---- Of any ------------------------------------------------------------------------------------

TEST(StepTraffic, ShrinksWithEachFusion) {
    const Graph graph = gx::graph<ResNet50>();
    EXPECT_TRUE(rc::check("a fusion more is never more traffic", [&] {
        StepShape shape{.sums_gradients = *rc::gen::arbitrary<bool>()};
        for (const DnnFusion f : dnn_fusions)
            if (*rc::gen::arbitrary<bool>()) shape.fusions.push_back(f);
        const double before = activation_bytes(step_traffic(graph, shape));
        shape.fusions.push_back(*rc::gen::elementOf(dnn_fusions));
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
            names.insert(name + (u.adds ? " + add + relu" : u.relu ? " + relu" : "") + ", forward");
            names.insert(name + ", backward");
            break;
        case OpKind::conv2d:
        case OpKind::linear:
            names.insert(name + ", forward");
            names.insert(name + ", weight gradient");
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

// ---- ResNet-50's -------------------------------------------------------------------------------

double megabytes_of(std::string_view name) {
    for (const StepChain& chain : step_chains())
        if (chain.name == name)
            return activation_bytes(step_traffic(gx::graph<ResNet50>(), chain.shape)) / 1e6;
    return 0;
}

TEST(ResNet50Traffic, IsWithinItsLimits) {
    EXPECT_NEAR(megabytes_of("plain"), 474.8, 0.1);
    EXPECT_NEAR(megabytes_of("joined"), 369.7, 0.1);
    EXPECT_LE(megabytes_of("v100"), 342);
    EXPECT_LE(megabytes_of("h100"), 283);
}

}  // namespace
