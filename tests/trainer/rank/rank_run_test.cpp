// RankRun: what the control messages of an epoch are for, and what a rank that is lost at one of
// them leaves behind.
#include <gx/trainer/rank/rank_run.hpp>

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <gx/reducer/double_buffered.hpp>         // DoubleBuffered
#include <gx/reducer/ring.hpp>                    // Ring
#include <gx/survival/continue_on_survivors.hpp>  // ContinueOnSurvivors
#include <gx/trainer/trainer.hpp>                 // Trainer
#include <trainer/small.hpp>                      // Net, images

namespace {

using namespace testing_support;
using Late = gx::DoubleBuffered<gx::Ring<gx::fp32>>;

/// Operations of rank 0 beside reductions, and where rank 1 is lost: at the first message of one.
struct Script {
    std::vector<std::string> operations{};
    std::string dies_at{};
    int dies_in = 0;  ///< epoch
};
Script script;

struct SeenTransport : gx::TransportOver<gx::detail::threads::Endpoint> {
    using TransportOver::TransportOver;
    void working_on(const gx::Operation& operation) {
        if (operation.bucket >= 0) return;  // on the stream
        now = std::string(operation.what.view());
        epochs += now == "summing the metrics";
        if (rank() == 0) script.operations.push_back(now);
    }
    gx::Request send(int to, int channel, std::span<const std::byte> message) {
        if (channel == gx::control_channel && rank() == 1 && now == script.dies_at &&
            epochs == script.dies_in) {
            script.dies_at.clear();
            throw gx::DeviceLost("a planned death");
        }
        return under().send(to, channel, message);
    }
    std::string now{};
    int epochs = 0;
};

using World = gx::ThreadWorld<gx::reference::Device>;
struct SeenRank {
    using Device = gx::reference::Device;
    explicit SeenRank(World::Rank& r) : under(r), seen(r.transport()) {}
    [[nodiscard]] int rank() const { return under.rank(); }
    [[nodiscard]] int ranks() const { return under.ranks(); }
    [[nodiscard]] gx::Nanoseconds now() const { return under.now(); }
    SeenTransport& transport() { return seen; }
    auto& stream() { return under.stream(); }
    [[nodiscard]] std::unique_ptr<Device> make_device(const gx::Graph& g, gx::DeviceOptions o) {
        return under.make_device(g, o);
    }
    World::Rank& under;
    SeenTransport seen;
};
/// Threads whose control messages are seen.
struct SeenWorld {
    using Rank = SeenRank;
    World world;
    [[nodiscard]] int ranks() const { return world.ranks(); }
    [[nodiscard]] gx::Placement placement() const { return world.placement(); }
    void run(gx::FunctionRef<void(Rank&)> f) {
        world.run([&](World::Rank& under) {
            Rank rank(under);
            f(rank);
        });
    }
    [[nodiscard]] gx::Survivors<SeenWorld> survivors(std::span<const int> lost,
                                                     gx::Nanoseconds t) const {
        auto left = world.survivors(lost, t);
        if (!left.world) return {};
        return {left.members, std::make_unique<SeenWorld>(SeenWorld{std::move(*left.world)})};
    }
};
SeenWorld seen(int ranks) { return {World({.placement = {ranks, 1}})}; }

TEST(RankRun, NamesWhatEachControlMessageIsFor) {
    using T = gx::Trainer<Net, gx::Ring<gx::fp32>, gx::Constant>;
    const Folder folder;
    for (const bool evaluates : {true, false}) {
        script = {};
        auto world = seen(2);
        (void)T({.batch = 4, .epochs = 1, .output = folder.path, .evaluate = evaluates})
            .train(world, images());
        std::vector<std::string> expected{"summing the metrics", "comparing the replicas"};
        if (evaluates) expected.insert(expected.end(), {"evaluating", "summing the test results"});
        expected.insert(expected.end(),
                        {"gathering the optimizer's state", "writing a checkpoint"});
        EXPECT_EQ(script.operations, expected);
    }
}
TEST(RankRun, NamesTheOperationThatARankIsLostIn) {
    using T = gx::Trainer<Net, gx::Ring<gx::fp32>, gx::Constant>;
    for (const char* operation :
         {"summing the metrics", "comparing the replicas", "summing the test results"}) {
        script = {.dies_at = operation, .dies_in = 1};
        auto world = seen(2);
        EXPECT_EQ(error_of([&] { (void)T({.batch = 4, .epochs = 2}).train(world, images()); }),
                  "a planned death");
        EXPECT_EQ(script.operations.back(), operation);
    }
}

// The last gradients of an epoch are complete on all ranks before its control messages.
TEST(RankRun, GradientsInFlightAreAppliedWhereARankIsLostBehindThem) {
    using T = gx::Trainer<Net, Late, gx::Constant, gx::ContinueOnSurvivors>;
    for (const int epoch : {1, 2}) {
        script = {.dies_at = "summing the metrics", .dies_in = epoch};
        auto world = seen(3);
        const gx::RunRecord r = T({.batch = 4, .epochs = 3}).train(world, images());
        ASSERT_EQ(r.losses.size(), 1u);
        EXPECT_EQ(r.losses[0].lost, std::vector<int>{1});
        EXPECT_EQ(r.losses[0].step, r.epochs[std::size_t(epoch) - 1].step) << "nothing is repeated";
    }
}

}  // namespace
