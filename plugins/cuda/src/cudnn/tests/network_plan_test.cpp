#include "../network_plan.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include <gx/cuda_testing/cudnn.hpp>
#include <gx/cuda_testing/runtime.hpp>
#include <gx/model/cifar_resnet.hpp>
#include <gx/model/inception.hpp>
#include <gx/model/resnet.hpp>
#include <gx/model/resnext.hpp>
#include <gx/model/sequence.hpp>
#include <model/random_network.hpp>

namespace {

using namespace gx;
using cuda::Dnn;
using cuda::detail::Block;
using cuda::detail::GradientRoute;
using cuda::detail::NetworkPlan;
using cuda::detail::Unit;
using Kind = GradientRoute::Kind;

class NetworkPlans : public ::testing::Test {
protected:
    NetworkPlans() {
        cuda_testing::reset({.check_at_exit = false});
        cuda_testing::reset_cudnn();
    }
};

/// conv, norm, relu; conv, norm, added to the first, relu; linear.
Graph residual() {
    GraphBuilder b("residual", {3, 4, 4}, 3);
    int x = b.conv2d(0, {.channels = 4, .window = Window::square(3, 1, 1)}, "conv0");
    x = b.relu(b.batch_norm(x, {}, "norm0"), "relu0");
    const int y = b.conv2d(x, {.channels = 4, .window = Window::square(3, 1, 1)}, "conv1");
    x = b.relu(b.add(x, b.batch_norm(y, {}, "norm1"), "add"), "relu1");
    x = b.linear(b.flatten(b.global_avg_pool(x, "mean"), "flatten"), 3, true, "fc");
    b.softmax_cross_entropy(x, 0, "loss");
    return std::move(b).finish();
}

TEST_F(NetworkPlans, JoinsWhatFollowsABatchNorm) {
    const Graph g = residual();
    Dnn dnn(nullptr, {});
    const NetworkPlan plan(g, dnn, 2, ElementType::fp32);
    std::vector<std::string> names;
    for (const Unit& u : plan.units())
        names.push_back(std::string(u.op->name.view()) + (u.adds ? "+add" : "") +
                        (u.relu ? "+relu" : ""));
    EXPECT_EQ(names, (std::vector<std::string>{"input", "conv0", "norm0+relu", "conv1",
                                               "norm1+add+relu", "mean", "flatten", "fc", "loss"}));
    const Unit& joined = plan.units()[4];
    EXPECT_EQ(joined.inputs[1], plan.units()[2].output);
    EXPECT_EQ(plan.activation(joined.op->output), Block::none) << "never stored";
    EXPECT_NE(joined.mask, Block::none);
    EXPECT_EQ(plan.units()[2].mask, Block::none) << "the ReLU is found again from x";
    EXPECT_EQ(joined.gradients[1].kind, Kind::store);
    EXPECT_EQ(plan.units()[3].gradients[0].kind, Kind::keep) << "beside what the addition stored";
    EXPECT_EQ(plan.units()[2].addend, plan.units()[3].gradients[0].addend);
    EXPECT_EQ(plan.units()[2].output_gradient, joined.gradients[1].to);
    EXPECT_EQ(plan.units()[1].gradients[0].kind, Kind::none) << "images need none";
    EXPECT_EQ(plan.units()[6].gradients[0].kind, Kind::shared) << "a flatten of one pixel";
    EXPECT_EQ(joined.final_from, 4u);
    EXPECT_EQ(plan.units()[1].final_from, 0u);
}

/// Where cuDNN has an engine for it and channels are in eights, of 16-bit elements.
TEST_F(NetworkPlans, LeavesSumsOfAConvolutionToItsBatchNorm) {
    GraphBuilder b("sums", {32, 4, 4}, 3);
    const auto norm = [&](int x, int channels, bool bias, Label name) {
        x = b.conv2d(x, {channels, Window::square(3, 1, 1), 1, bias}, Label("conv of ") + name);
        return b.batch_norm(x, {}, name);
    };
    int x = norm(0, 16, false, "taken");
    x = b.batch_norm(b.relu(b.batch_norm(x, {}, "of a norm"), "relu"), {}, "of its relu");
    x = norm(norm(x, 12, false, "twelve"), 8, false, "of twelve");
    x = b.conv2d(norm(x, 8, true, "biased"), {8, Window::square(3, 1, 1)}, "last");
    b.softmax_cross_entropy(b.linear(b.flatten(x, "flatten"), 3, true, "fc"), 0, "loss");
    const Graph g = std::move(b).finish();
    for (const auto gpu : {cuda_testing::CudnnGpu::h100, cuda_testing::CudnnGpu::v100})
        for (const ElementType e : {ElementType::fp32, ElementType::fp16}) {
            cuda_testing::reset_cudnn({.gpu = gpu});
            Dnn dnn(nullptr, {.compute = e, .fp32_weight_gradients = false});
            const NetworkPlan plan(g, dnn, 2, e);
            std::vector<std::string> with_sums;
            for (const Unit& u : plan.units())
                if (u.sums != Block::none) with_sums.emplace_back(u.op->name.view());
            if (e == ElementType::fp32 || gpu == cuda_testing::CudnnGpu::v100) {
                EXPECT_TRUE(with_sums.empty());
                continue;
            }
            EXPECT_EQ(with_sums, (std::vector<std::string>{"conv of taken", "taken"}));
            const Unit &conv = plan.units()[1], &read = plan.units()[2];
            EXPECT_EQ(conv.sums, read.sums);
            EXPECT_EQ(plan.memory(conv.sums).bytes, 2 * 16 * 4);
            EXPECT_EQ(plan.memory(conv.sums).first, conv.last);
            EXPECT_EQ(plan.memory(conv.sums).last, read.last);
        }
}

/// The plain layout is the fallback where cuDNN has no plan.
TEST_F(NetworkPlans, ReadsTheFirstConvolutionsImagesInBlocks) {
    GraphBuilder b("stem", {3, 8, 8}, 3);
    int x = b.conv2d(0, {8, Window::square(7, 2, 3)}, "stem");
    x = b.linear(b.flatten(b.global_avg_pool(x, "mean"), "flatten"), 3, true, "fc");
    b.softmax_cross_entropy(x, 0, "loss");
    const Graph g = std::move(b).finish();
    // Plans of both engines that are not excluded: the stem's forward is the first that is made,
    // and its weight gradient the second.
    for (const int refused : {0, 1, 2})
        for (const ElementType e : {ElementType::fp16, ElementType::fp32}) {
            cuda_testing::reset_cudnn();
            if (refused > 0) cuda_testing::fail_cudnn_plan(refused, CUDNN_STATUS_NOT_SUPPORTED, 2);
            Dnn dnn(nullptr, {.compute = e, .fp32_weight_gradients = false});
            if (refused > 0 && e == ElementType::fp32) continue;  // there are no others
            const NetworkPlan plan(g, dnn, 2, e);
            const bool blocks = e == ElementType::fp16 && refused == 0;
            EXPECT_EQ(plan.units()[0].blocks.has_value(), blocks);
            EXPECT_EQ(plan.units()[1].blocks.has_value(), blocks);
            EXPECT_EQ(plan.units()[1].block_weight != Block::none, blocks);
            EXPECT_EQ(plan.memory(plan.activation(0)).bytes,
                      2 * (blocks ? 4 * 4 * 16 : 3 * 8 * 8) * (e == ElementType::fp16 ? 2 : 4));
        }
}

TEST_F(NetworkPlans, AppliesBothBatchNormsOfAnAddition) {
    GraphBuilder b("both", {3, 4, 4}, 3);
    const auto norm = [&](Label name) {
        return b.batch_norm(b.conv2d(0, {.channels = 4}, Label("conv of ") + name), {}, name);
    };
    const int first = norm("first"), second = norm("second");
    int x = b.relu(b.add(second, first, "add"), "relu");
    x = b.linear(b.flatten(b.global_avg_pool(x, "mean"), "flatten"), 3, true, "fc");
    b.softmax_cross_entropy(x, 0, "loss");
    const Graph g = std::move(b).finish();
    Dnn dnn(nullptr, {});
    const NetworkPlan plan(g, dnn, 2, ElementType::fp32);
    const Unit &one = plan.units()[2], &two = plan.units()[4];
    EXPECT_TRUE(one.norms_only);
    EXPECT_EQ(plan.activation(first), Block::none) << "never stored";
    EXPECT_EQ(two.residual_norm, one.op);
    EXPECT_EQ(two.residual_norms, one.notes);
    EXPECT_FALSE(two.norms_only);
    EXPECT_EQ(one.output_gradient, two.gradients[1].to);
    std::vector<std::string> blamed;
    for (const auto& c : plan.checks()) blamed.emplace_back(c.blamed->name.view());
    EXPECT_EQ(blamed, (std::vector<std::string>{"input", "conv of first", "first", "conv of second",
                                                "second", "add", "flatten", "fc"}));
}
/// The last of three gradients is left to the batch norm; what is no batch norm reads their sum.
TEST_F(NetworkPlans, LeavesTheLastGradientToABatchNorm) {
    for (const bool normed : {true, false}) {
        GraphBuilder b("three readers", {3, 4, 4}, 3);
        int x = b.conv2d(0, {.channels = 4}, "stem");
        if (normed) x = b.batch_norm(x, {}, "norm");
        const int y = b.conv2d(x, {.channels = 4}, "one"), z = b.conv2d(x, {.channels = 4}, "two");
        x = b.add(b.add(x, y, "add0"), z, "add1");
        x = b.linear(b.flatten(b.global_avg_pool(x, "mean"), "flatten"), 3, true, "fc");
        b.softmax_cross_entropy(x, 0, "loss");
        const Graph g = std::move(b).finish();
        Dnn dnn(nullptr, {});
        const NetworkPlan plan(g, dnn, 2, ElementType::fp32);
        const auto units = plan.units().subspan(normed ? 3 : 2);
        const Unit& writer = *(units.begin() - 1);
        EXPECT_EQ(units[0].gradients[0].kind, normed ? Kind::keep : Kind::add);
        EXPECT_EQ(units[1].gradients[0].kind, Kind::add);
        EXPECT_EQ(units[2].gradients[0].kind, Kind::store);
        EXPECT_EQ(writer.addend, normed ? units[0].gradients[0].addend : Block::none);
    }
}

/// one (4 channels), two (3), three (2): three behind the two others.
TEST_F(NetworkPlans, JoinsAListOfBranchesInOnePlace) {
    GraphBuilder b("list", {3, 4, 4}, 3);
    const int one = b.conv2d(0, {.channels = 4}, "one"), two = b.conv2d(0, {.channels = 3}, "two"),
              three = b.conv2d(0, {.channels = 2}, "three");
    const int inner = concat(b, one, two, "inner");
    int x = concat(b, inner, three, "outer");
    x = b.linear(b.flatten(b.relu(x, "relu"), "flatten"), 3, true, "fc");
    b.softmax_cross_entropy(x, 0, "loss");
    const Graph g = std::move(b).finish();
    Dnn dnn(nullptr, {});
    const NetworkPlan plan(g, dnn, 2, ElementType::fp32);
    const Unit &first = plan.units()[4], &last = plan.units()[5];
    EXPECT_EQ(plan.activation(inner), Block::none) << "never stored apart";
    EXPECT_EQ(first.joined, last.output);
    EXPECT_EQ(last.joined, last.output);
    EXPECT_EQ(first.first_channels, (std::array{0, 4}));
    EXPECT_EQ(last.first_channels, (std::array{0, 7}));
    EXPECT_EQ(plan.memory(plan.activation(last.output)).first, 4) << "filled from the first on";
    EXPECT_EQ(last.gradients[0].kind, Kind::shared);
    EXPECT_EQ(first.output_gradient, last.output_gradient);
    EXPECT_EQ(first.gradients[1].kind, Kind::store);
    std::vector<std::string> blamed;
    for (const auto& c : plan.checks()) blamed.emplace_back(c.blamed->name.view());
    EXPECT_EQ(blamed, (std::vector<std::string>{"input", "one", "flatten", "fc"}))
        << "what is joined is in the ReLU's output";
}
TEST_F(NetworkPlans, TakesNetworksOfBranchesAndOfGroups) {
    for (const Graph& g : {graph<InceptionV3>(), graph<ResNeXt50>()})
        for (const auto gpu : {cuda_testing::CudnnGpu::v100, cuda_testing::CudnnGpu::h100})
            for (const ElementType e : {ElementType::fp32, ElementType::fp16}) {
                cuda_testing::reset_cudnn({.gpu = gpu});
                Dnn dnn(nullptr, {.compute = e});
                const NetworkPlan plan(g, dnn, 8, e);
                const MemoryPlan separate(g, 8, Mode::train, e == ElementType::fp32 ? 4 : 2);
                EXPECT_LT(plan.bytes(), separate.bytes) << g.name.view();
            }
}

RC_GTEST_FIXTURE_PROP(NetworkPlans, PlacesNothingTwice, ()) {
    const Graph g = testing_support::random_network();
    const int batch = testing_support::any_of(1, 3);
    Dnn dnn(nullptr, {.compute = ElementType::fp16});
    const NetworkPlan plan(g, dnn, batch, ElementType::fp16);
    std::vector<MemoryBlock> blocks;
    const auto add = [&](Block b) {
        if (b == Block::none) return;
        const MemoryBlock& memory = plan.memory(b);
        RC_ASSERT(memory.offset >= 0 && memory.offset + memory.bytes <= plan.bytes());
        RC_ASSERT(memory.offset % 256 == 0);
        blocks.push_back(memory);
    };
    for (const Unit& u : plan.units()) {
        const bool shares = u.op->kind == OpKind::flatten &&
                            plan.activation(u.op->output) == plan.activation(u.op->inputs[0]);
        if (!shares) add(plan.activation(u.output));
        for (const Block b :
             {u.notes, u.mask, u.workspace, u.backward_workspace, u.weight_gradient})
            add(b);
        for (const GradientRoute& r : u.gradients) {
            if (r.kind == Kind::store) add(r.to);
            if (r.addend != u.output_gradient) add(r.addend);
        }
    }
    RC_ASSERT(!overlaps(blocks));
}
TEST_F(NetworkPlans, ReadyFollowsTheParametersNotTheUnits) {
    GraphBuilder b("late", {3, 4, 4}, 3);
    const int early = b.batch_norm(b.conv2d(0, {.channels = 4}, "conv0"), {}, "norm");
    const int late = b.conv2d(0, {.channels = 4}, "conv1");  // behind the norm's parameters
    int x = b.relu(b.add(early, late, "add"), "relu");
    x = b.linear(b.flatten(b.global_avg_pool(x, "mean"), "flatten"), 3, false, "fc");
    b.softmax_cross_entropy(x, 0, "loss");
    const Graph g = std::move(b).finish();
    Dnn dnn(nullptr, {});
    const NetworkPlan plan(g, dnn, 2, ElementType::fp32);
    const auto final_from = [&](std::string_view name) {
        return std::ranges::find(plan.units(), name,
                                 [](const Unit& u) { return u.op->name.view(); })
            ->final_from;
    };
    EXPECT_EQ(final_from("fc"), 4u);
    EXPECT_EQ(final_from("norm"), 4u) << "conv1's is missing";
    EXPECT_EQ(final_from("conv1"), 1u);
    EXPECT_EQ(final_from("conv0"), 0u);
}
/// 53 batch norms store one tensor each, with ReLU and addition; MemoryPlan keeps more.
TEST_F(NetworkPlans, ResNet50KeepsLessThanItsOperationsOneByOne) {
    const Graph g = graph<ResNet50>();
    Dnn dnn(nullptr, {.compute = ElementType::fp16});
    const NetworkPlan plan(g, dnn, 8, ElementType::fp16);
    EXPECT_EQ(std::ranges::count_if(plan.units(), [](const Unit& u) { return u.relu; }), 49);
    EXPECT_EQ(std::ranges::count_if(plan.units(), [](const Unit& u) { return u.adds; }), 16);
    const MemoryPlan separate(g, 8, Mode::train, 2);
    EXPECT_LT(plan.bytes(), separate.bytes) << "workspaces counted";
}
TEST_F(NetworkPlans, ChecksWhatOutlivesTheForward) {
    const Graph g = residual();
    Dnn dnn(nullptr, {});
    const NetworkPlan plan(g, dnn, 2, ElementType::fp32);
    std::vector<std::string> blamed;
    for (const auto& c : plan.checks()) blamed.emplace_back(c.blamed->name.view());
    EXPECT_EQ(blamed, (std::vector<std::string>{"input", "conv0", "norm0", "conv1", "norm1", "add",
                                                "flatten", "fc"}))
        << "the mean's output is kept, what it reads is not";
}

}  // namespace
