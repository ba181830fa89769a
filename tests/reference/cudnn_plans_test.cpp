// reference/cudnn/<gpu>.json are the answers to the questions that cuDNN would be asked today.
#include <questions.hpp>

#include <fstream>
#include <map>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace {

using namespace gx;
using namespace gx::cuda;
using Json = nlohmann::json;

Json plans_of(const std::string& gpu) {
    const std::string path = std::string(GX_CUDNN_PLANS) + "/" + gpu + ".json";
    std::ifstream in(path);
    EXPECT_TRUE(in.good()) << path;
    return Json::parse(in, nullptr, false);
}

const Json& network(const Json& file, std::size_t i) { return file["networks"].at(i); }

bool is_planned(const Json& question) {
    return question["plans"].is_array() && !question["plans"].empty();
}

/// Whether every question of a network's layers, or of its fusions, has plans.
bool all_planned(const Json& network, bool fusions) {
    bool all = true, any = false;
    for (const Json& q : network["plans"])
        if ((q["pattern"] != "layer") == fusions) all &= is_planned(q), any = true;
    return all && any;
}

// ---- The questions ------------------------------------------------------------------------------

TEST(PlanQuestions, AskForEachLayerOnce) {
    const Graph graph = gx::graph<ResNet50>();
    std::size_t convolutions = 0, products = 0;
    for (const Op& op : graph.ops) products += op.kind == OpKind::conv2d;
    std::set<std::string> texts;
    for (const PlanQuestion& q : plan_questions(graph, 256, false)) {
        EXPECT_TRUE(texts.insert(q.text).second) << q.text;
        if (graph.ops[q.op].kind == OpKind::conv2d) convolutions += q.layers.size();
    }
    EXPECT_EQ(convolutions, products);
    EXPECT_EQ(products, 53u);
}

TEST(PlanQuestions, FuseWhereAReluOfABatchNormIsRead) {
    std::map<DnnFusion, std::size_t> layers;
    for (const PlanQuestion& q : plan_questions(gx::graph<ResNet50>(), 256, true))
        layers[q.fusion] += q.layers.size();
    EXPECT_EQ(layers[DnnFusion::statistics], 53u) << "a batch norm follows each convolution";
    EXPECT_EQ(layers[DnnFusion::normalized_input], 32u) << "the second and third of each block";
    EXPECT_EQ(layers[DnnFusion::batch_norm_gradient], 32u);
    EXPECT_EQ(layers[DnnFusion::residual_input], 15u) << "of each block that another follows";
    EXPECT_EQ(layers[DnnFusion::residual_gradient], 15u);
    EXPECT_EQ(layers[DnnFusion::input_gradient_of_norm], 52u) << "images need no gradient";
    EXPECT_EQ(layers[DnnFusion::weight_gradient_of_norm], 53u);

    GraphBuilder b("bias", {4, 8, 8}, 10);
    int x = b.relu(b.batch_norm(b.conv2d(0, {.channels = 8}, "first"), {}, "bn"), "relu");
    x = b.conv2d(x, {.channels = 8, .bias = true}, "biased");
    x = b.flatten(b.global_avg_pool(x, "mean"), "flatten");
    b.softmax_cross_entropy(b.linear(x, 10, true, "fc"), 0, "loss");
    const Graph biased = std::move(b).finish();
    for (const PlanQuestion& q : plan_questions(biased, 8, true))
        EXPECT_TRUE(q.fusion == DnnFusion::none || q.layers.front() == "first") << q.text;
}

TEST(PlanQuestions, HashChangesWithAQuestion) {
    auto networks = planned_networks();
    const std::uint64_t hash = hash_of_questions(networks);
    EXPECT_EQ(hash, hash_of_questions(planned_networks()));
    networks[0].batch /= 2;
    EXPECT_NE(hash, hash_of_questions(networks));
    networks = planned_networks();
    networks[1].graph.ops[1].window.stride = 2;
    EXPECT_NE(hash, hash_of_questions(networks));
}

// ---- The answers that are kept ------------------------------------------------------------------

class CudnnPlans : public testing::TestWithParam<const char*> {};

TEST_P(CudnnPlans, AreOfTodaysGraphs) {
    const Json file = plans_of(GetParam());
    ASSERT_FALSE(file.is_discarded());
    const auto networks = planned_networks();
    EXPECT_EQ(file["questions"], hash_text(hash_of_questions(networks)))
        << "layers or fusions changed: run ./gx cuda-plans and commit what it writes";
    ASSERT_EQ(file["networks"].size(), networks.size());
    for (std::size_t i = 0; i < networks.size(); ++i) {
        const auto questions = networks[i].questions();
        const Json& answers = network(file, i)["plans"];
        EXPECT_EQ(network(file, i)["network"], std::string(networks[i].graph.name.view()));
        ASSERT_EQ(answers.size(), questions.size());
        for (std::size_t q = 0; q < questions.size(); ++q) {
            EXPECT_EQ(answers[q]["of"], questions[q].text);
            EXPECT_EQ(answers[q]["pattern"], std::string(to_string(questions[q].fusion)));
            EXPECT_EQ(answers[q]["layers"], Json(questions[q].layers));
        }
        EXPECT_TRUE(all_planned(network(file, i), false)) << "a layer without a plan";
    }
}
INSTANTIATE_TEST_SUITE_P(, CudnnPlans, testing::Values("v100", "h100"));

TEST(CudnnFusions, AreOfAnH100Alone) {
    const Json v100 = plans_of("v100"), h100 = plans_of("h100");
    const auto is_of_norm = [](const Json& q) {  // cuDNN has none in front of a convolution's
        return q["pattern"].get<std::string>().starts_with("batch norm gradient");
    };
    for (const Json& q : network(h100, 0)["plans"])
        EXPECT_NE(is_planned(q), is_of_norm(q)) << q["of"];
    for (const Json& q : network(h100, 1)["plans"]) {  // of 3x3 windows, not behind an addition
        const std::string pattern = q["pattern"];
        EXPECT_TRUE(is_planned(q) || is_of_norm(q) || pattern.find("add") != pattern.npos)
            << q["of"];
    }
    for (const std::size_t fp16_network : {0u, 1u})
        for (const Json& q : network(v100, fp16_network)["plans"])
            EXPECT_EQ(is_planned(q), q["pattern"] == "layer") << q["of"];
}

}  // namespace
