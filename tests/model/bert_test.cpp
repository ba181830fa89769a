#include <gx/model/bert.hpp>  // first, so the header is seen to stand alone

#include <algorithm>
#include <array>
#include <string_view>

#include <gtest/gtest.h>

#include <gx/model/albert.hpp>
#include <gx/model/cost.hpp>  // costs
#include <gx/model/gpt.hpp>
#include <gx/model/memory_plan.hpp>  // MemoryPlan
#include <gx/model/mlp.hpp>
#include <gx/model/timed_only.hpp>  // expect_numbers

namespace {

using namespace gx;

// ---- What the types promise ---------------------------------------------------------
// Source: num_parameters() of Hugging Face's BertModel, BertForPreTraining, GPT2LMHeadModel and
// AlbertModel, for bert-base-uncased, bert-large-uncased, gpt2 to gpt2-xl, albert-base-v2.
static_assert(parameter_count<BertBase>() == 109'482'240);
static_assert(parameter_count<BertLarge>() == 335'141'888);
static_assert(parameter_count<BertBasePretraining>() == 110'106'428);
static_assert(parameter_count<BertLargePretraining>() == 336'226'108);
static_assert(parameter_count<Gpt2Small>() == 124'439'808);
static_assert(parameter_count<Gpt2Medium>() == 354'823'168);
static_assert(parameter_count<AlbertBase>() == 11'683'584);
static_assert(fits<BertBase>({1, 512, 1}));
static_assert(trouble<BertBase>({.input = {1, 513, 1}}).fault == GraphFault::sequence_too_long,
              "there are 512 positions");
static_assert(trouble<Gpt2Small>({.input = {1, 1025, 1}}).fault == GraphFault::sequence_too_long,
              "there are 1024 positions");
static_assert(trouble<BertBase>({.input = {3, 128, 1}}).fault == GraphFault::shapes_differ,
              "tokens are one number each");

/// 12 W^2 multiply-adds a token and layer in products with weights, 2 T W in attention.
template <int Layers, std::int64_t Width, std::int64_t Tokens>
constexpr std::int64_t encoder_macs =
    Layers * (12 * Width * Width * Tokens + 2 * Tokens * Tokens * Width) + Width * Width;
static_assert(mac_count<BertBase>() == encoder_macs<12, 768, 128>);
static_assert(mac_count<BertLarge>() == encoder_macs<24, 1024, 128>);
static_assert(mac_count<AlbertBase>() == encoder_macs<12, 768, 128> + 128 * 128 * 768,
              "shared layers compute as much as their copies would");
static_assert(mac_count<Gpt2Small>() ==
              encoder_macs<12, 768, 1024> - 768 * 768 + std::int64_t{1024} * 768 * 50'257);

static_assert(gpt({.layers = 12, .width = 768, .heads = 12}).parameter_elements() ==
              parameter_count<Gpt2Small>());
static_assert(gpt({.layers = 2, .width = 64, .heads = 4, .context = 32}).macs() ==
              mac_count<Gpt<2, 64, 4, 32>>());

// ---- When gradients are ready -------------------------------------------------------
/// Elements from which on all gradients are complete after the backward of operation `i`.
std::int64_t ready_after(const Graph& g, std::size_t i) {
    std::int64_t end = 0;
    for (std::size_t k = 0; k < i; ++k)
        for (int p = 0; p < g.ops[k].parameter_count; ++p) {
            const Parameter& q =
                g.parameters[static_cast<std::size_t>(g.ops[k].first_parameter + p)];
            end = std::max(end, q.offset + q.count);
        }
    return end;
}

TEST(Bert, TheTiedWordTableIsReadyLast) {
    const Graph g = graph<BertBasePretraining>();
    const std::size_t decoder = g.ops.size() - 2;
    ASSERT_EQ(g.ops[decoder].name.view(), "cls.predictions.decoder");
    EXPECT_EQ(g.ops[decoder].tied_parameter, 0);
    EXPECT_EQ(g.parameters[0].name.view(), "embeddings.word_embeddings.weight");
    EXPECT_EQ(g.parameters[0].count, 30'522 * 768);
    EXPECT_EQ(g.parameter_elements() - ready_after(g, decoder), 30'522) << "its bias alone";
    EXPECT_EQ(ready_after(g, 1), 0) << "the table, after the embedding's own backward";
    EXPECT_GE(ready_after(g, 2), g.parameters[0].count);
}

TEST(Albert, NothingOfTheSharedLayerIsReadyBeforeItsFirstUse) {
    const Graph g = graph<AlbertBase>();
    std::size_t first = 0, uses = 0;
    std::int64_t owner_offset = -1;
    for (std::size_t i = 0; i < g.ops.size(); ++i) {
        const Op& op = g.ops[i];
        if (!op.name.view().starts_with("encoder.layer.intermediate.dense")) continue;
        if (uses++ == 0) first = i;
        owner_offset = g.parameters[static_cast<std::size_t>(op.first_parameter)].offset;
        EXPECT_EQ(owner_offset,
                  g.parameters[static_cast<std::size_t>(g.ops[first].first_parameter)].offset);
        if (i == first) continue;
        EXPECT_GT(ready_after(g, i), owner_offset) << op.name.view();
    }
    EXPECT_EQ(uses, 12u);
    EXPECT_LE(ready_after(g, first), owner_offset);
}

TEST(Bert, ParametersAreNamedAsHuggingFaceNamesThem) {
    const Graph g = graph<BertBase>();
    ASSERT_EQ(g.parameters.size(), 199u);  // len(list(BertModel.parameters()))
    EXPECT_EQ(g.parameters[5].name.view(), "encoder.layer.0.attention.self.query.weight");
    EXPECT_EQ(g.parameters[196].name.view(), "encoder.layer.11.output.LayerNorm.bias");
    EXPECT_EQ(g.parameters[198].name.view(), "pooler.dense.bias");
}

// ---- Costs worked by hand -----------------------------------------------------------
TEST(Sequence, AttentionCostsTwoProductsAndTheirGradients) {
    GraphBuilder b("attention", {1, 5, 1}, 8);
    const std::array<Table, 1> words{{{".words", 11}}};
    const int x = embedding(b, b.input(), 8, words, "embed");
    const int y = attention(b, x, x, x, {.width = 8, .heads = 2, .dropout = 0}, "attn");
    b.softmax_cross_entropy(b.flatten(select(b, y, 1, "first"), "flatten"), 0, "loss");
    const Graph g = std::move(b).finish();
    const auto all = costs(g);
    EXPECT_EQ(g.tensors[2], (ImageShape{2, 5, 5}));
    EXPECT_EQ(all[2].forward_flops, 2 * 5 * 5 * 8);
    EXPECT_EQ(all[2].backward_data_flops, 2 * all[2].forward_flops);
    EXPECT_EQ(all[2].backward_weight_flops, 0);
    EXPECT_EQ(all[2].forward_traffic, 40 + 40 + 50);
    EXPECT_EQ(all[4].forward_traffic, 50 + 40 + 40);
    EXPECT_EQ(all[4].parameters, 0);
    EXPECT_EQ(g.parameter_elements(), 88);
    // Kept for backward: the word numbers, queries and keys once, probabilities; softmax's output.
    const MemoryPlan plan(g, 3, Mode::train);
    EXPECT_FALSE(overlaps(plan));
    EXPECT_EQ(plan.activation(3).last, 2 * 8 - 1 - 3) << "the probabilities";
    EXPECT_EQ(plan.activation(2).last, 3) << "the scores go with their softmax";
}

// ---- Bad input ----------------------------------------------------------------------
TEST(Sequence, AHeadsCountDividesTheWidth) {
    GraphBuilder b("attention", {1, 5, 1}, 8, GraphBuilder::Checks::trial);
    attention(b, b.input(), b.input(), b.input(), {.width = 8, .heads = 3}, "attn");
    EXPECT_EQ(b.trouble().fault, GraphFault::bad_groups);
}
TEST(Sequence, ADeviceRefusesWhatItCannotCompute) {
    try {
        expect_numbers(graph<BertBase>());
        FAIL() << "an embedding has no numbers";
    } catch (const Error& e) {
        EXPECT_NE(std::string_view(e.what()).find("'BERT-12x768' is timed only: operation "
                                                  "'embeddings' is of kind embedding"),
                  std::string_view::npos)
            << e.what();
    }
    EXPECT_NO_THROW(expect_numbers(graph<Mlp<8>>()));
}

}  // namespace
