#include <gx/trainer/checkpoint.hpp>

#include <gtest/gtest.h>

#include <gx/model/cifar_resnet.hpp>  // statistics
#include <gx/model/concept.hpp>       // graph
#include <gx/model/lenet.hpp>         // another network
#include <trainer/small.hpp>          // Folder, error_of

namespace {

using namespace testing_support;

/// Numbers that tell their place.
std::vector<float> counted(std::int64_t count, float from) {
    std::vector<float> v(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = from + static_cast<float>(i);
    return v;
}
gx::Checkpoint full(const gx::Graph& graph) {
    const std::int64_t n = graph.parameter_elements();
    return {.model = std::string(graph.name.view()), .composition = "C", .seed = ~std::uint64_t{0},
            .epoch = 3, .step = std::int64_t{1} << 40, .seconds = 0.1,
            .loss_scale = {.scale = 512, .good_steps = 77},
            .parameters = counted(n, 1), .statistics = counted(graph.statistic_elements(), 0.5f),
            .optimizer = {counted(n, -9), counted(n, 9)},
            .pending = {{41, 1024, counted(n, 2)}, {42, 512, counted(n, 3)}},
            .reducer = {1, 2, 3},
            .record = rows_text(gx::RunRecord{})};
}

// ---- What is written comes back -----------------------------------------------------

TEST(Checkpoint, GivesBackAllOfIt) {
    const Folder folder;
    const gx::Graph graph = gx::graph<gx::CifarResNet<8>>();
    const gx::Checkpoint a = full(graph);
    ASSERT_GT(a.statistics.size(), 0u);
    gx::write_checkpoint(folder / "c", graph, a);
    const gx::Checkpoint b = gx::read_checkpoint(folder / "c", graph);
    EXPECT_EQ(b.model, a.model);
    EXPECT_EQ(b.composition, a.composition);
    EXPECT_EQ(b.seed, a.seed);
    EXPECT_EQ(b.epoch, a.epoch);
    EXPECT_EQ(b.step, a.step);
    EXPECT_EQ(b.seconds, a.seconds);
    EXPECT_EQ(b.loss_scale.scale, a.loss_scale.scale);
    EXPECT_EQ(b.loss_scale.good_steps, a.loss_scale.good_steps);
    EXPECT_EQ(b.parameters, a.parameters);
    EXPECT_EQ(b.statistics, a.statistics);
    EXPECT_EQ(b.optimizer, a.optimizer);
    ASSERT_EQ(b.pending.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(b.pending[i].index, a.pending[i].index);
        EXPECT_EQ(b.pending[i].loss_scale, a.pending[i].loss_scale);
        EXPECT_EQ(b.pending[i].values, a.pending[i].values);
    }
    EXPECT_EQ(b.reducer, a.reducer);
    EXPECT_EQ(b.record, a.record);
}
TEST(Checkpoint, WeightsHaveTheirPlainNamesAndShapes) {
    const Folder folder;
    const gx::Graph graph = gx::graph<gx::LeNet>();
    gx::write_checkpoint(folder / "c", graph, full(graph));
    const auto tensors = gx::read_safetensors(folder / "c").tensors;
    using Shape = std::vector<std::int64_t>;
    EXPECT_EQ(tensors.at("conv1.weight").shape, (Shape{6, 1, 5, 5}));
    EXPECT_EQ(tensors.at("conv1.bias").shape, (Shape{6}));
    EXPECT_EQ(tensors.at("fc3.weight").shape, (Shape{10, 84}));
    EXPECT_TRUE(tensors.contains("optimizer.1.fc3.weight"));
}

// ---- Bad files ----------------------------------------------------------------------

TEST(Checkpoint, SaysWhatIsWrong) {
    const Folder folder;
    const gx::Graph graph = gx::graph<gx::LeNet>(), other = gx::graph<gx::CifarResNet<8>>();
    const auto told = [&](const gx::Graph& wanted) {
        return error_of([&] { (void)gx::read_checkpoint(folder / "c", wanted); });
    };
    gx::write_checkpoint(folder / "c", graph, full(graph));
    EXPECT_EQ(told(graph), "no error");
    EXPECT_TRUE(holds(told(other), "/c': it is of model 'LeNet', and this run trains '",
                      "Resume with the model that wrote it."));

    gx::Graph resized = gx::graph<gx::LeNet>({.classes = 12});
    EXPECT_TRUE(
        holds(told(resized), "tensor 'fc3.weight' has 840 elements where 1008 were expected"));

    gx::Checkpoint c = full(graph);
    c.record = "{}";
    gx::write_checkpoint(folder / "c", graph, c);
    EXPECT_TRUE(holds(told(graph), "/c': its metadata fields 'gx' and 'record' lack something",
                      "breakdown"));
    c.record = "not JSON";
    gx::write_checkpoint(folder / "c", graph, c);
    EXPECT_TRUE(holds(told(graph), "/c': its metadata fields"));

    gx::write_safetensors(folder / "c", {});
    EXPECT_TRUE(holds(told(graph), "no field 'gx' in its metadata", "weights only"));
    gx::write_safetensors(folder / "c", {}, {{"gx", R"({"model":"LeNet"})"}});
    EXPECT_TRUE(holds(told(graph), "lack something", "composition"));
    gx::write_safetensors(
        folder / "c", {},
        {{"gx", R"({"model":"LeNet","composition":"C","seed":1,"epoch":1,"step":1,"seconds":1,)"
                R"("loss_scale":1,"good_steps":0})"}});
    EXPECT_TRUE(holds(told(graph), "tensor 'conv1.weight' is missing"));
}

}  // namespace
