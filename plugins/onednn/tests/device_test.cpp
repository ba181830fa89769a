#include <gx/onednn/device.hpp>

#include <gtest/gtest.h>

#include <thread>  // ranks

#include <gx/coordination/process_cores.hpp>  // CoreShare
#include <gx/core/error.hpp>                  // Error
#include <gx/model/cifar_resnet.hpp>          // FashionResNet
#include <gx/model/lenet.hpp>                 // LeNet
#include <gx/onednn/detail/convolution.hpp>   // cpu_is_intel
#include <gx/onednn/detail/program.hpp>       // usual_chunk_bytes
#include <gx/onednn/detail/shapes.hpp>        // Shapes
#include <gx/onednn/detail/simd.hpp>          // cpu_block
#include <gx/onednn/detail/team.hpp>          // Owners

#include "agreement.hpp"

using agreement::Data;
using gx::Graph;
using gx::GraphBuilder;
using gx::Mode;
using gx::Window;

// ---- What the type promises ---------------------------------------------------------
static_assert(gx::Device<gx::onednn::Device>);
static_assert(!std::is_copy_constructible_v<gx::onednn::Device>, "a device is one place");

// ---- A case worked by hand ----------------------------------------------------------
TEST(OneDnnDevice, WorksOutOneLinearLayer) {
    GraphBuilder b("hand", {2, 1, 1}, 2);
    b.softmax_cross_entropy(b.linear(0, 2, true, "fc"), 0, "loss");
    const Graph g = std::move(b).finish();
    gx::onednn::Device d(g, {.batch = 1});
    agreement::load(d, {1, 0, 0, 1, 0, 0});  // the identity, and no bias
    const std::vector<float> image{3, 3};
    const std::vector<std::int32_t> label{1};
    const auto report = d.forward({image, label, 1, 0}, Mode::train);
    EXPECT_DOUBLE_EQ(report.loss_sum, std::log(2.0));
    EXPECT_EQ(report.correct, 0);  // of equal logits the first is taken
    std::vector<float> gradients(d.parameters().size());
    d.backward(2, gradients, [](std::size_t) {});
    EXPECT_EQ(agreement::canonical(d, gradients, g), (std::vector<float>{3, 3, -3, -3, 1, -1}));
}

// ---- Order: what changes the bits, and what does not ------------------------------------
namespace {
std::vector<float> gradients_of(gx::onednn::Device& d, const Data& data) {
    std::vector<float> gradients(d.parameters().size());
    static_cast<void>(d.forward(data.batch(1), Mode::train));
    d.backward(1, gradients, [](std::size_t) {});
    return gradients;
}
std::vector<float> fresh(int threads, const Data& data, const Graph& g) {
    gx::onednn::Device d(g, {.batch = 8}, {.lanes = 4, .threads = threads});
    agreement::load(d, agreement::parameters(g, 1));
    return gradients_of(d, data);
}
}  // namespace

TEST(OneDnnDevice, BitsDoNotDependOnThreads) {
    const Graph g = gx::graph<gx::FashionResNet<8>>();
    const Data data(g, 7, 4);
    const auto one = fresh(1, data, g);
    for (const int threads : {1, 2, 3, 4})
        EXPECT_EQ(fresh(threads, data, g), one) << threads << " threads";
}
TEST(OneDnnDevice, BitsDoNotDependOnWhatRanBefore) {
    const Graph g = gx::graph<gx::LeNet>();
    const Data data(g, 5, 4), other(g, 8, 5), few(g, 2, 6);
    const auto alone = fresh(2, data, g);
    gx::onednn::Device d(g, {.batch = 8}, {.lanes = 4, .threads = 2});
    agreement::load(d, agreement::parameters(g, 1));
    gradients_of(d, other);
    gradients_of(d, few);
    static_cast<void>(d.forward(other.batch(), Mode::evaluate));
    EXPECT_EQ(gradients_of(d, data), alone);
}
TEST(OneDnnDevice, BitsDoNotDependOnWhereTheGradientLies) {
    const Graph g = gx::graph<gx::LeNet>();
    const Data data(g, 8, 4);
    gx::onednn::Device d(g, {.batch = 8}, {.lanes = 2});
    agreement::load(d, agreement::parameters(g, 1));
    const auto first = gradients_of(d, data);
    std::vector<float> memory(first.size() + 17);
    for (const std::size_t shift : {1, 7, 16}) {
        const std::span<float> gradients(memory.data() + shift, first.size());
        static_cast<void>(d.forward(data.batch(1), Mode::train));
        d.backward(1, gradients, [](std::size_t) {});
        EXPECT_TRUE(std::ranges::equal(gradients, first)) << "shifted by " << shift;
    }
}
TEST(OneDnnDevice, ChunksByDefaultAsSuitsTheMaker) {
    using gx::onednn::detail::usual_chunk_bytes;
    static_assert(usual_chunk_bytes(true) == 16 << 20 && usual_chunk_bytes(false) == 2 << 20);
    const Graph g = gx::graph<gx::FashionResNet<8>>();
    const Data data(g, 8, 4);
    const auto of = [&](std::int64_t chunk_bytes) {
        gx::onednn::Device d(g, {.batch = 8}, {.lanes = 1, .chunk_bytes = chunk_bytes});
        agreement::load(d, agreement::parameters(g, 1));
        return gradients_of(d, data);
    };
    EXPECT_EQ(of(0), of(usual_chunk_bytes(gx::onednn::detail::cpu_is_intel())));
    EXPECT_NE(of(0), of(1)) << "one image at once adds in another order";
}
TEST(OneDnnDevice, RanksOnThreadsEqualRanksInTurn) {
    const Graph g = gx::graph<gx::FashionResNet<8>>();
    const Data left(g, 6, 1), right(g, 8, 2);
    const auto rank = [&](const Data& data) {
        gx::onednn::Device d(g, {.batch = 8});
        agreement::load(d, agreement::parameters(g, 1));
        return gradients_of(d, data);
    };
    const auto a = rank(left), b = rank(right);
    std::vector<float> x, y;
    std::thread one([&] { x = rank(left); }), two([&] { y = rank(right); });
    one.join(), two.join();
    EXPECT_EQ(x, a);
    EXPECT_EQ(y, b);
}

TEST(OneDnnDevice, TakesTheCoresOfItsProcessAlone) {
    using gx::onednn::detail::Owners;
    Owners owners;
    const int all = Owners::cores();
    EXPECT_EQ(owners.threads_each(1), all);
    {
        const gx::coordination::CoreShare more(all + 1);
        EXPECT_EQ(owners.threads_each(1), all) << "the system shows no more";
        const gx::coordination::CoreShare one(1);
        EXPECT_EQ(owners.threads_each(1), 1);
    }
    EXPECT_EQ(owners.threads_each(1), all);
    const Graph g = gx::graph<gx::FashionResNet<8>>();
    const Data data(g, 8, 1);
    const auto gradients = [&] {
        gx::onednn::Device d(g, {.batch = 8}, {.lanes = 2});
        agreement::load(d, agreement::parameters(g, 1));
        return gradients_of(d, data);
    };
    const auto with_all = gradients();
    const gx::coordination::CoreShare one(1);
    EXPECT_EQ(gradients(), with_all);
}

// ---- Memory -----------------------------------------------------------------------------
TEST(OneDnnDevice, KeepsTheOutputsOfConvolutionsAlone) {
    constexpr int batch = 4;
    for (const auto& [blocks, held] : {std::pair{8, 4}, {16, 6}, {36, 10}}) {
        const Graph g = agreement::residual_blocks(blocks, false);
        const gx::onednn::Device d(g, {.batch = batch});
        // At the end of the forward pass: a convolution's output of each layer. When the backward
        // pass begins: of n blocks the outputs of the last sqrt(n) and of each sqrt(n)-th before
        // them but the first, one of a layer within a block, and three gradients at most.
        constexpr std::int64_t tensor = std::int64_t{batch} * 16 * 8 * 8;
        const int layers = 2 * blocks;
        EXPECT_GE(d.arena_floats(), layers * tensor);
        EXPECT_LE(d.arena_floats(), (layers + held + 1 + 3) * tensor) << blocks << " blocks";
    }
}

TEST(OneDnnDevice, ListsItsMemory) {
    const Graph g = gx::graph<gx::FashionResNet<8>>();
    const auto of = [&](int lanes) {
        return gx::onednn::Device(g, {.batch = 12}, {.lanes = lanes, .threads = 1}).memory();
    };
    const gx::onednn::Device d(g, {.batch = 12}, {.lanes = 2, .threads = 1});
    const gx::onednn::MemoryUse use = d.memory();
    EXPECT_EQ(use.activations + use.activations_again + use.activation_gradients +
                  use.arena_scratch + use.arena_gaps,
              4 * d.arena_floats());
    EXPECT_GT(use.activations, 0);
    EXPECT_GE(use.arena_gaps, 0);
    EXPECT_EQ(use.parameters, 4 * std::ssize(d.parameters()));
    EXPECT_EQ(of(1).lane_gradients, 0);
    EXPECT_GT(use.lane_gradients, 0);
    EXPECT_LT(use.lane_gradients, use.parameters) << "only of parameters not added yet";
    EXPECT_EQ(of(3).lane_gradients, 2 * use.lane_gradients);
}

/// Two layers with batch norms, whose outputs a single segment of the forward pass uses.
Graph two_norms() {
    GraphBuilder b("norms", {1, 6, 6}, 3);
    int x = b.conv2d(0, {8, Window::square(3, 1, 1)}, "a");
    x = b.relu(b.batch_norm(x, {}, "a.norm"), "a.relu");
    x = b.conv2d(x, {8, Window::square(3, 1, 1)}, "b");
    x = b.relu(b.batch_norm(x, {}, "b.norm"), "b.relu");
    b.softmax_cross_entropy(b.linear(b.flatten(x, "f"), 3, true, "l"), 0, "loss");
    return std::move(b).finish();
}

TEST(OneDnnDevice, HoldsOneChunkOfWhatOneSegmentUses) {
    const Graph g = two_norms();
    const auto floats = [&](std::int64_t chunk_bytes) {
        return gx::onednn::Device(g, {.batch = 8}, {.lanes = 1, .chunk_bytes = chunk_bytes})
            .arena_floats();
    };
    const int image = gx::onednn::detail::cpu_block() * 6 * 6;
    const int placed = gx::onednn::detail::round_up(image, 64);  // as pack() does
    EXPECT_LE(floats(1), floats(1 << 30) - (8 * image - placed));
}

TEST(OneDnnDevice, ReadsPlainImagesWhereItsLibraryHasKernelsForThem) {
    const bool wide = gx::onednn::detail::cpu_block() == 16;  // else AVX2, at most
    for (const int channels : {1, 2, 3, 4}) {
        GraphBuilder b("first layer", {channels, 6, 6}, 3);
        const int x = b.conv2d(0, {8, Window::square(3, 1, 1)}, "a");
        b.softmax_cross_entropy(b.linear(b.flatten(x, "f"), 3, true, "l"), 0, "loss");
        const Graph g = std::move(b).finish();
        const bool plain = channels == 3 || (channels < 3 && wide);
        const gx::onednn::detail::Shapes shapes(g, gx::ElementType::fp32, false);
        EXPECT_EQ(shapes.packs_input, !plain) << channels << " channels";
    }
}

TEST(OneDnnDevice, PlacesTheImagesOfEachBatchInChunks) {
    const Graph g = gx::graph<gx::FashionResNet<8>>();
    const gx::onednn::Tuning tuning{.lanes = 2, .threads = 1, .chunk_bytes = 300'000};
    const Data data(g, 7, 3), fewer(g, 5, 4);
    const auto gradients = [&](bool after_fewer) {
        gx::onednn::Device d(g, {.batch = 7}, tuning);
        agreement::load(d, agreement::parameters(g, 1));
        std::vector<float> all(d.parameters().size());
        if (after_fewer) static_cast<void>(d.forward(fewer.batch(), Mode::train));
        static_cast<void>(d.forward(data.batch(), Mode::train));
        d.backward(1, all, [](std::size_t) {});
        return all;
    };
    EXPECT_EQ(gradients(true), gradients(false));
}

/// Winograd's kernels for its layers reserve more scratch memory than a lane has of its own.
struct ManyChannels
    : gx::Network<gx::ImageShape{3, 16, 16}, 4, gx::Conv<128, 3, 1, 1>, gx::BatchNorm, gx::ReLU,
                  gx::Conv<128, 3, 1, 1>, gx::BatchNorm, gx::ReLU, gx::Conv<128, 3, 1, 1>,
                  gx::BatchNorm, gx::ReLU, gx::GlobalAvgPool, gx::Classifier> {
    static constexpr std::string_view name = "ManyChannels";
};

TEST(OneDnnDevice, LargeScratchMemoryLiesInTheArena) {
    const Graph g = gx::graph<ManyChannels>();
    gx::onednn::Device with(g, {.batch = 8}, {.lanes = 2}),
        without(g, {.batch = 8}, {.lanes = 2, .winograd = false});
    EXPECT_EQ(with.memory().scratch, without.memory().scratch) << "direct kernels need little";
    if (agreement::has_winograd()) {
        EXPECT_GT(with.memory().arena_scratch, std::int64_t{2} << 20);
        EXPECT_EQ(without.memory().arena_scratch, 0);
    }
}

/// The smaller batch is taken in larger chunks than any of the batch that the arena is made for.
TEST(OneDnnDevice, GivesASmallerBatchTheScratchMemoryThatItNeeds) {
    const Graph g = gx::graph<ManyChannels>();
    const Data data(g, 16, 4), fewer(g, 12, 5);
    bool grows = false;
    for (const std::int64_t chunk_bytes : {1'700'000, 2'500'000}) {
        const gx::onednn::Tuning tuning{.lanes = 2, .threads = 2, .chunk_bytes = chunk_bytes};
        const auto alone = [&](const Data& of) {
            gx::onednn::Device d(g, {.batch = static_cast<int>(of.labels.size())}, tuning);
            agreement::load(d, agreement::parameters(g, 1));
            return gradients_of(d, of);
        };
        gx::onednn::Device d(g, {.batch = 16}, tuning);
        agreement::load(d, agreement::parameters(g, 1));
        const auto before = d.memory().scratch;
        EXPECT_EQ(gradients_of(d, fewer), alone(fewer));
        grows |= d.memory().scratch > before;
        EXPECT_EQ(gradients_of(d, data), alone(data));
    }
    EXPECT_EQ(grows, agreement::has_winograd());
}

TEST(OneDnnDevice, CopiesTheWeightsOfOneLayerAtATime) {
    const Graph g = gx::graph<agreement::LargeWeights>();
    gx::onednn::Device d(g, {.batch = 2}, {.lanes = 2, .winograd = false});
    constexpr std::int64_t largest = 9 * 128 * 160;
    EXPECT_LE(d.memory().weight_copies, 4 * largest);
    const auto copies = [&] { return d.counters().weight_repacks; };
    agreement::load(d, agreement::parameters(g, 1));
    EXPECT_EQ(copies(), 0) << "copied by an update, and not by the pass that reads them";
    static_cast<void>(gradients_of(d, Data(g, 2, 1)));
    EXPECT_LE(copies(), 3) << "more than the layers that have a data gradient";
}

// ---- Readiness, layout, empty batches -------------------------------------------------
TEST(OneDnnDevice, GradientsAreFinalFromTheWatermarkOn) {
    const Graph g = gx::graph<gx::FashionResNet<8>>();
    gx::onednn::Device d(g, {.batch = 4}, {.lanes = 2});
    agreement::load(d, agreement::parameters(g, 1));
    const Data data(g, 4, 4);
    static_cast<void>(d.forward(data.batch(), Mode::train));
    std::vector<float> gradients(d.parameters().size()), seen(gradients.size());
    std::size_t last = gradients.size();
    int calls = 0;
    d.backward(1, gradients, [&](std::size_t from) {
        EXPECT_LT(from, last);
        std::copy(gradients.begin() + static_cast<std::ptrdiff_t>(from),
                  gradients.begin() + static_cast<std::ptrdiff_t>(last),
                  seen.begin() + static_cast<std::ptrdiff_t>(from));
        last = from;
        ++calls;
    });
    EXPECT_EQ(last, 0u);
    EXPECT_GE(calls, 8);
    EXPECT_EQ(seen, gradients);
}
TEST(OneDnnDevice, LayoutsRoundTripAndPaddingStaysZero) {
    GraphBuilder b("odd", {3, 8, 8}, 5);
    int x = b.relu(b.batch_norm(b.conv2d(0, {6, Window::square(3, 1, 1)}, "a"), {}, "n"), "r");
    x = b.conv2d(x, {10, Window::square(3, 2, 1), 1, true}, "b");
    b.softmax_cross_entropy(b.linear(b.flatten(x, "f"), 5, true, "l"), 0, "loss");
    const Graph g = std::move(b).finish();
    gx::onednn::Device d(g, {.batch = 4});
    std::vector<float> numbered(static_cast<std::size_t>(g.parameter_elements()));
    for (std::size_t i = 0; i < numbered.size(); ++i) numbered[i] = static_cast<float>(i + 1);
    std::vector<float> mine(d.parameters().size());
    d.from_canonical(numbered, mine);
    EXPECT_EQ(agreement::canonical(d, mine, g), numbered);
    std::vector<float> padding(mine.size());  // 1 where nothing of the graph lies
    std::transform(mine.begin(), mine.end(), padding.begin(),
                   [](float v) { return v == 0 ? 1.0f : 0.0f; });
    agreement::load(d, agreement::parameters(g, 3));
    const auto gradients = gradients_of(d, Data(g, 4, 4));
    for (std::size_t i = 0; i < padding.size(); ++i) EXPECT_EQ(padding[i] * gradients[i], 0) << i;
    std::size_t next = 0;
    for (const auto& s : d.slices()) {
        EXPECT_EQ(s.offset, next);
        next += s.count;
    }
    EXPECT_EQ(next, mine.size());
}
TEST(OneDnnDevice, AnEmptyBatchGivesNothing) {
    const Graph g = gx::graph<gx::LeNet>();
    gx::onednn::Device d(g, {.batch = 4});
    agreement::load(d, agreement::parameters(g, 1));
    const auto report = d.forward({}, Mode::train);
    EXPECT_EQ(report.loss_sum, 0);
    EXPECT_TRUE(report.finite);
    std::vector<float> gradients(d.parameters().size(), 5.0f);
    std::vector<std::size_t> told;
    d.backward(1, gradients, [&](std::size_t from) { told.push_back(from); });
    EXPECT_EQ(told, std::vector<std::size_t>{0});
    EXPECT_TRUE(std::ranges::all_of(gradients, [](float v) { return v == 0; }));
}

// ---- Faults -----------------------------------------------------------------------------
TEST(OneDnnDevice, NamesALayerWhoseOutputTheNextChunkOverwrites) {
    const Graph g = two_norms();
    gx::onednn::Device d(g, {.batch = 3}, {.lanes = 1, .chunk_bytes = 1});
    std::vector<float> start = agreement::parameters(g, 1);
    for (const gx::Op& op : g.ops)  // factors that only the numbers of the first image overflow by
        if (op.kind == gx::OpKind::batch_norm)
            std::fill_n(
                start.begin() + g.parameters[static_cast<std::size_t>(op.first_parameter)].offset,
                8, 1e6f);
    agreement::load(d, start);
    std::vector<float> images(3 * 36, 0.0f);
    std::fill_n(images.begin(), 36, 1e36f);
    const std::vector<std::int32_t> labels(3, 0);
    EXPECT_FALSE(d.forward({images, labels, 3}, Mode::evaluate).finite);
    EXPECT_EQ(d.first_non_finite(), "batch_norm 'a.norm'");
}

TEST(OneDnnDevice, NamesTheFirstLayerThatIsNotANumber) {
    const Graph g = gx::graph<gx::FashionResNet<8>>();
    for (const std::string wanted : {"conv2d", "batch_norm", "linear"}) {
        gx::onednn::Device d(g, {.batch = 2});
        gx::reference::Device r(g, {.batch = 2});
        auto start = agreement::parameters(g, 1);
        const gx::Op* bad = nullptr;
        for (const gx::Op& op : g.ops)
            if (to_string(op.kind) == wanted) bad = &op;
        ASSERT_NE(bad, nullptr);
        start[static_cast<std::size_t>(
            g.parameters[static_cast<std::size_t>(bad->first_parameter)].offset)] =
            std::numeric_limits<float>::quiet_NaN();
        agreement::load(d, start), agreement::load(r, start);
        const Data data(g, 2, 3);
        EXPECT_FALSE(d.forward(data.batch(), Mode::train).finite);
        EXPECT_FALSE(r.forward(data.batch(), Mode::train).finite);
        EXPECT_EQ(d.first_non_finite(), r.first_non_finite());
        EXPECT_EQ(d.first_non_finite(), wanted + " '" + std::string(bad->name.view()) + "'");
    }
}
TEST(OneDnnDevice, RefusesWhatItDoesNotDo) {
    GraphBuilder b("flat", {4, 3, 3}, 5);
    const int x = b.batch_norm(b.flatten(0, "f"), {}, "norm");
    b.softmax_cross_entropy(b.linear(x, 5, true, "l"), 0, "loss");
    const Graph g = std::move(b).finish();
    EXPECT_THROW(gx::onednn::Device(g, {.batch = 2}), gx::Error);
}
static_assert(gx::computes_in<gx::onednn::Device, gx::fp32>);
static_assert(gx::computes_in<gx::onednn::Device, gx::bf16>);
static_assert(gx::computes_in<gx::onednn::Device, gx::fp16>);
TEST(OneDnnDeviceDeath, StopsAtALabelOutOfRange) {
    const Graph g = gx::graph<gx::LeNet>();
    gx::onednn::Device d(g, {.batch = 2}, {.threads = 1});
    Data data(g, 2, 1);
    data.labels[1] = 10;
    EXPECT_DEATH(static_cast<void>(d.forward(data.batch(), Mode::train)),
                 "label 10 of image 1: expected 0 to 9");
    Data large(g, 3, 1);
    EXPECT_DEATH(static_cast<void>(d.forward(large.batch(), Mode::train)),
                 "a batch of 3 images: expected 0 to 2");
}
