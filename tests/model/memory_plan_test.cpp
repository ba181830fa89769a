#include <gx/model/memory_plan.hpp>  // first, so the header is seen to stand alone

#include <gx/model/alexnet.hpp>
#include <gx/model/cifar_resnet.hpp>
#include <gx/model/lenet.hpp>
#include <gx/model/mlp.hpp>
#include <gx/model/vgg.hpp>
#include <model/random_network.hpp>  // any small graph

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using namespace gx;

/// Runs a step on an arena of labels in place of numbers. Whoever reads a block finds the label
/// that its writer left, or the plan gave the memory away too early. Knows nothing of lifetimes.
class Replay {
public:
    Replay(const Graph& g, const MemoryPlan& plan)
        : graph_(g),
          plan_(plan),
          arena_(static_cast<std::size_t>(plan.bytes / 64), nullptr),
          gradient_written_(g.tensors.size(), false) {}

    /// The first complaint, or nothing.
    std::string run(Mode mode) {
        for (std::size_t i = 0; i < graph_.ops.size(); ++i) forward(i, mode);
        if (mode == Mode::evaluate) return complaint_;
        for (std::size_t i = graph_.ops.size(); i-- > 0;) backward(i);
        return complaint_;
    }

private:
    using Block = const MemoryBlock*;

    void forward(std::size_t i, Mode mode) {
        const Op& op = graph_.ops[i];
        std::vector<Block> reads, writes{&plan_.activation(op.output)};
        for (const int t : op.inputs)
            if (t >= 0) reads.push_back(&plan_.activation(t));
        const Kept k = kept(graph_, op);
        if (mode == Mode::train && k.bytes_per_image + k.bytes_per_batch > 0)
            writes.push_back(&plan_.notes(static_cast<int>(i)));
        act(reads, writes, op);
    }
    void backward(std::size_t i) {
        const Op& op = graph_.ops[i];
        const Kept k = kept(graph_, op);
        const bool loss = op.kind == OpKind::softmax_cross_entropy;
        std::vector<Block> reads, writes;
        if (k.bytes_per_image + k.bytes_per_batch > 0)
            reads.push_back(&plan_.notes(static_cast<int>(i)));
        if (k.input) reads.push_back(&plan_.activation(op.inputs[0]));
        if (k.output) reads.push_back(&plan_.activation(op.output));
        bool gives = op.parameter_count > 0;
        for (const int t : op.inputs) {
            if (t < 0 || !gradient_tensors(graph_)[static_cast<std::size_t>(t)]) continue;
            gives = true;
            auto written = gradient_written_[static_cast<std::size_t>(t)];
            (written ? reads : writes).push_back(&plan_.gradient(t));  // adds to what is there
            gradient_written_[static_cast<std::size_t>(t)] = true;
        }
        if (gives && !loss) reads.push_back(&plan_.gradient(op.output));
        act(reads, writes, op);
    }
    void act(const std::vector<Block>& reads, const std::vector<Block>& writes, const Op& op) {
        for (const Block b : reads) read(b, op);
        for (const Block b : writes) write(b, op);
        for (const Block b : reads) read(b, op);  // reading goes on while the output is written
        for (const Block b : writes) read(b, op);
    }
    void read(Block b, const Op& op) {
        if (!b->exists()) return complain(op, "reads what the plan lacks");
        for (std::int64_t at = b->offset; at < b->offset + b->bytes; at += 64)
            if (arena_[static_cast<std::size_t>(at / 64)] != b) complain(op, "reads a lost block");
    }
    void write(Block b, const Op& op) {
        if (!b->exists()) return complain(op, "writes what the plan lacks");
        if (b->offset % 64 != 0 || b->offset + b->bytes > plan_.bytes)
            return complain(op, "writes outside the arena or unaligned");
        for (std::int64_t at = b->offset; at < b->offset + b->bytes; at += 64)
            arena_[static_cast<std::size_t>(at / 64)] = b;
    }
    void complain(const Op& op, std::string what) {
        if (complaint_.empty()) complaint_ = std::string(op.name.view()) + " " + what;
    }

    const Graph& graph_;
    const MemoryPlan& plan_;
    std::vector<Block> arena_;
    std::vector<bool> gradient_written_;
    std::string complaint_;
};

// ---- A case worked by hand ----------------------------------------------------------
struct Hand {
    static constexpr std::string_view name = "Hand";
    static constexpr ImageShape input{1, 4, 4};
    static constexpr int classes = 2;
    static constexpr int describe(GraphBuilder& b, int x) {
        x = b.conv2d(x, {1, Window::square(1)}, "conv");
        return b.linear(b.flatten(x, "flatten"), b.classes(), true, "fc");
    }
};

void expect_life(const MemoryBlock& b, std::int64_t bytes, int first, int last) {
    EXPECT_EQ(b.bytes, bytes);
    EXPECT_EQ(b.first, first);
    EXPECT_EQ(b.last, last);
}

TEST(MemoryPlan, LivesAsWorkedByHand) {
    // time      0 input 1 conv 2 flatten 3 fc 4 loss | 5 loss 6 fc 7 flatten 8 conv 9 input
    const MemoryPlan plan(graph<Hand>(), 4, Mode::train, 4);
    expect_life(plan.activation(0), 256, 0, 8);  // conv keeps it
    expect_life(plan.activation(1), 256, 1, 2);
    expect_life(plan.activation(2), 256, 2, 6);  // fc keeps it
    expect_life(plan.activation(3), 32, 3, 4);
    expect_life(plan.activation(4), 16, 4, 4);
    expect_life(plan.notes(4), 32, 4, 5);  // probabilities
    expect_life(plan.gradient(3), 32, 5, 6);
    expect_life(plan.gradient(2), 256, 6, 7);
    expect_life(plan.gradient(1), 256, 7, 8);
    EXPECT_FALSE(plan.gradient(0).exists());              // the image
    EXPECT_FALSE(plan.gradient(4).exists());              // the loss
    EXPECT_EQ(plan.live_bytes(6), 256 + 256 + 64 + 256);  // input, flatten, dlogits, dflatten
    EXPECT_EQ(plan.lower_bound_bytes, 832);
    EXPECT_EQ(plan.bytes, 832);
}

TEST(MemoryPlan, ForgetsAtOnceWhenItOnlyEvaluates) {
    const MemoryPlan plan(graph<Hand>(), 4, Mode::evaluate, 4);
    expect_life(plan.activation(0), 256, 0, 1);
    expect_life(plan.activation(2), 256, 2, 3);
    EXPECT_FALSE(plan.gradient(3).exists() || plan.notes(4).exists());
    EXPECT_EQ(plan.bytes, 512);
}

TEST(MemoryPlan, SeesAnOverlapMadeByHand) {
    const MemoryBlock a{0, 128, 0, 3}, later{0, 128, 4, 9};  // offset, bytes, first, last
    const MemoryBlock beside{128, 64, 2, 5}, into{64, 128, 3, 4};
    EXPECT_FALSE(overlaps(std::vector{a, beside}));
    EXPECT_FALSE(overlaps(std::vector{a, later}));
    EXPECT_TRUE(overlaps(std::vector{a, beside, into}));
    EXPECT_FALSE(overlaps(std::vector{a, MemoryBlock{}}));  // none overlaps nothing
}

// ---- Properties, for any network ----------------------------------------------------
Mode any_mode() { return *rc::gen::element(Mode::train, Mode::evaluate); }

RC_GTEST_PROP(MemoryPlan, GivesNoMemoryToTwoAtATime, ()) {
    const Graph g = testing_support::random_network();
    const Mode mode = any_mode();
    const int batch = testing_support::any_of(1, 9);
    const MemoryPlan plan(g, batch, mode, *rc::gen::element(2, 4, 8));
    RC_ASSERT(!overlaps(plan));
    RC_ASSERT(Replay(g, plan).run(mode) == "");
    RC_ASSERT(plan.bytes >= plan.lower_bound_bytes);
    RC_ASSERT(plan.bytes <= 2 * plan.lower_bound_bytes);
}

RC_GTEST_PROP(PlaceBlocks, SharesMemoryOnlyAtOtherTimes, ()) {
    std::vector<MemoryBlock> blocks(std::size_t(testing_support::any_of(0, 20)));
    for (MemoryBlock& b : blocks) {
        b.bytes = testing_support::any_of(0, 300);
        b.first = testing_support::any_of(0, 9);
        b.last = b.first + testing_support::any_of(0, 5);
    }
    const std::int64_t bytes = place_blocks(blocks);
    RC_ASSERT(!overlaps(blocks));
    for (const MemoryBlock& b : blocks) {
        RC_ASSERT(b.exists() == (b.offset >= 0));
        RC_ASSERT(!b.exists() || (b.offset % 64 == 0 && b.offset + b.bytes <= bytes));
    }
}
RC_GTEST_PROP(MemoryPlan, IsSeenWhenTwoLiveBlocksAreMovedTogether, ()) {
    const Graph g = testing_support::random_network();
    const MemoryPlan plan(g, 2, Mode::train, 4);
    std::vector<MemoryBlock> blocks = plan.blocks();
    const std::size_t logits = g.tensors.size() - 2;  // alive when the loss is, which is behind it
    blocks[logits].offset = blocks[logits + 1].offset;
    RC_ASSERT(overlaps(blocks));
}

// ---- All networks -------------------------------------------------------------------
template <class M>
void expect_tight(int batch) {
    const Graph g = graph<M>();
    for (const Mode mode : {Mode::train, Mode::evaluate}) {
        const MemoryPlan plan(g, batch, mode, 4);
        EXPECT_FALSE(overlaps(plan)) << M::name;
        EXPECT_EQ(Replay(g, plan).run(mode), "") << M::name;
        EXPECT_EQ(plan.bytes, plan.lower_bound_bytes) << M::name;
    }
}
TEST(MemoryPlan, NeedsTheLeastOnEveryNetwork) {
    expect_tight<Mlp<300, 100>>(64);
    expect_tight<LeNet>(64);
    expect_tight<FashionResNet<20>>(64);
    expect_tight<ResNet110>(8);
    expect_tight<AlexNet>(1);
    expect_tight<Vgg16>(1);
    expect_tight<ResNet18>(1);
    expect_tight<ResNet50>(1);
    expect_tight<ResNet152>(1);
}

TEST(MemoryPlan, KeepsAThirdOfWhatSeparateTensorsTake) {
    const MemoryPlan plan(graph<ResNet50>(), 16, Mode::train, 4);
    std::int64_t separate = 0;
    for (const MemoryBlock& b : plan.blocks()) separate += b.bytes;
    EXPECT_LT(plan.bytes * 3, separate);
}

// ---- Bad input ----------------------------------------------------------------------
TEST(MemoryPlanDeathTest, StopsAtABatchOfNone) {
    EXPECT_DEATH(MemoryPlan(graph<Hand>(), 0, Mode::train, 4), "at least one image");
}

}  // namespace
