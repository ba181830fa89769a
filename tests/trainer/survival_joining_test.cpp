// Ranks that are lost while survivors join the next world on devices.
#include <gx/trainer/rank/training.hpp>  // first, so the header is seen to stand alone

#include <algorithm>
#include <limits>
#include <optional>

#include <gtest/gtest.h>

#include <gx/optimizer/sgd.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/scheduler/constant.hpp>
#include <gx/survival/continue_on_survivors.hpp>
#include <gx/testing/far/device.hpp>
#include <gx/testing/far/world.hpp>
#include <gx/trainer/loss_scale.hpp>
#include <gx/trainer/trainer.hpp>
#include <trainer/small.hpp>  // Net, images

namespace {

using namespace testing_support;

/// In world `world` of a run, `rank` loses its device: in the forward pass, or the call of a
/// control message, before which there were `calls`.
struct Death {
    int world = 0, rank = 0, calls = 0;
    bool in_control = false;
};
struct Script {
    Death first{}, second{};
    int delay = 0;      ///< work that the first one queues before, while other work gets on
    int overflow = -1;  ///< the backward pass of world 0 whose gradient is not finite
    int world = 0;
    std::array<int, 4> calls{};  ///< of control messages, by rank

    void die(bool in_control, int rank, int before) const {
        for (const Death& d : {first, second})
            if (d.world == world && d.rank == rank && d.calls == before &&
                d.in_control == in_control)
                throw gx::DeviceLost("a planned death");
    }
};
Script script;

struct Overflowing : gx::reference::Device {
    using Device::Device;
    void backward(float scale, std::span<float> gradients, gx::GradientsReady ready) {
        Device::backward(scale, gradients, [](std::size_t) {});
        if (script.world == 0 && script.overflow == passes++)
            gradients[0] = std::numeric_limits<float>::infinity();
        ready(0);
    }
    int passes = 0;
};

class Mortal : public gx::testing::FarDevice<Overflowing> {
public:
    using Inner = Overflowing;
    template <class Rank>
    Mortal(Rank& rank, const gx::Graph& graph, gx::DeviceOptions o)
        : FarDevice(rank, graph, o), rank_(o.rank) {}
    void forward(gx::Mode mode, gx::ViewIn<gx::ForwardReport, gx::testing::FarMemory> report) {
        if (rank_ == script.first.rank && passes_ == script.first.calls)
            for (int i = 0; i < script.delay; ++i)
                queue().enqueue({.operation = {"nothing"}, .run = [] {}});
        if (mode == gx::Mode::train) script.die(false, rank_, passes_++);
        FarDevice::forward(mode, report);
    }

private:
    int rank_, passes_ = 0;
};

struct MortalControl : gx::TransportOver<gx::testing::HostTransport> {
    using TransportOver::TransportOver;
    gx::Request send(int to, int channel, std::span<const std::byte> message) {
        script.die(true, rank(), script.calls[std::size_t(rank())]++);
        return under().send(to, channel, message);
    }
    gx::Request receive(int from, int channel, std::span<std::byte> message) {
        script.die(true, rank(), script.calls[std::size_t(rank())]++);
        return under().receive(from, channel, message);
    }
};

struct MortalRank : gx::testing::FarRank<Mortal> {
    MortalRank(gx::testing::FarMachine& machine, int rank)
        : FarRank(machine, rank), mortal(FarRank::control()) {}
    MortalControl& control() { return mortal; }
    MortalControl mortal;
};

/// FarWorld with such ranks.
struct MortalWorld {
    using Rank = MortalRank;
    gx::testing::FarWorld<Mortal>::Options options{};
    int number = 0;

    [[nodiscard]] int ranks() const { return options.placement.ranks(); }
    [[nodiscard]] gx::Placement placement() const { return options.placement; }
    void run(gx::FunctionRef<void(Rank&)> f) const {
        script.world = number;
        script.calls = {};
        gx::testing::FarMachine machine(options.placement, options.seed, options.progress);
        machine.run([&](int r) {
            Rank rank(machine, r);
            f(rank);
        });
    }
    [[nodiscard]] gx::Survivors<MortalWorld> survivors(std::span<const int> lost,
                                                       gx::Nanoseconds) const {
        gx::Survivors<MortalWorld> left{.members =
                                            gx::detail::threads::ranks_without(ranks(), lost)};
        if (left.members.empty()) return left;
        auto next = options;
        next.placement = gx::detail::threads::placement_of(placement(), left.members);
        left.world = std::make_unique<MortalWorld>(MortalWorld{next, number + 1});
        return left;
    }
};

// Each rank of the second world dies in turn, at each of its first control messages: some of the
// others have joined then, and some have not.
TEST(SurvivalOnDevices, ASecondLossWhileSurvivorsJoinIsSurvived) {
    using Training = gx::Trainer<Net, gx::Ring<gx::fp32>, gx::Constant, gx::ContinueOnSurvivors>;
    for (int rank = 0; rank < 3; ++rank)
        for (int calls = 0; calls < 9; ++calls) {
            script = {.first = {.world = 0, .rank = 3, .calls = 4},
                      .second = {.world = 1, .rank = rank, .calls = calls, .in_control = true}};
            MortalWorld world{{{4, 1}, 1, gx::testing::QueueProgress::random}};
            const auto record =
                Training({.batch = 2, .epochs = 2, .seed = 7}).train(world, images());
            ASSERT_FALSE(record.losses.empty());
            EXPECT_EQ(record.losses.back().ranks, 2) << "rank " << rank << ", call " << calls;
            EXPECT_EQ(record.losses.back().world, 2);
            EXPECT_EQ(record.epochs.size(), 2u);
        }
}

// A rank that is lost in the first control message of an epoch's end: all gradients are complete.
TEST(SurvivalOnDevices, GradientsInFlightAreAppliedWhereARankIsLostBehindThem) {
    using Training = gx::Trainer<Net, gx::DoubleBuffered<gx::Ring<gx::fp32>>, gx::Constant,
                                 gx::ContinueOnSurvivors>;
    for (const auto progress : {gx::testing::QueueProgress::late, gx::testing::QueueProgress::eager,
                                gx::testing::QueueProgress::random}) {
        script = {.first = {.world = 0, .rank = 3, .calls = 0, .in_control = true},
                  .second = {.world = -1}};
        MortalWorld world{{{4, 1}, 1, progress}};
        const auto record = Training({.batch = 2, .epochs = 2, .seed = 7}).train(world, images());
        ASSERT_EQ(record.losses.size(), 1u);
        EXPECT_EQ(record.losses[0].step, record.epochs[0].step) << "nothing is repeated";
    }
}

// Rank 0 was behind the others by a gradient that they skip. It learns so as it joins the second
// world, which breaks then.
TEST(SurvivalOnDevices, ARowThatIsSkippedStaysSoAfterASecondLoss) {
    using Training = gx::Trainer<Net, gx::Ring<gx::fp32>, gx::Constant, gx::ContinueOnSurvivors>;
    int counted = 0;
    for (std::uint64_t seed = 1; seed <= 6; ++seed)  // of which some have it behind
        for (const int lost : {1, 3})
            for (int calls = 0; calls < 9; ++calls) {
                script = {.first = {.world = 0, .rank = lost, .calls = 3},
                          .second = {.world = 1, .rank = 1, .calls = calls, .in_control = true},
                          .delay = 56,
                          .overflow = 2};
                MortalWorld world{{{4, 1}, seed, gx::testing::QueueProgress::random}};
                const auto record =
                    Training({.batch = 2, .epochs = 2, .seed = 7}).train(world, images());
                EXPECT_EQ(std::ranges::count(record.steps, true, &gx::StepRow::skipped),
                          record.skipped_steps)
                    << "seed " << seed << ", rank " << lost << ", call " << calls;
                counted += int(record.skipped_steps);
            }
    EXPECT_GT(counted, 0);
}

// All wait until rank 0 has copied a checkpoint that a later step may need.
TEST(SurvivalOnDevices, BehindTheLastEpochNoneWaitsForItsCheckpoint) {
    using Training = gx::Trainer<Net, gx::Ring<gx::fp32>, gx::Constant, gx::ContinueOnSurvivors>;
    const auto messages = [](gx::Recovery recovery, int epochs) {
        const Folder folder;
        Training::Options o{.batch = 2, .epochs = epochs, .output = folder.path};
        o.survival.recovery = recovery;
        script = {.first = {.world = -1}, .second = {.world = -1}};
        MortalWorld world{{{4, 1}, 1, gx::testing::QueueProgress::late}};
        (void)Training(o).train(world, images());
        return script.calls;
    };
    using enum gx::Recovery;
    EXPECT_EQ(messages(checkpoint, 1), messages(survivors, 1));
    EXPECT_NE(messages(checkpoint, 2), messages(survivors, 2));
}

// Ranks are behind by the first gradient of an epoch, which overflows, or have not read what became
// of it: a run's record has the same of its history as where all had read it.
TEST(SurvivalOnDevices, WhereTheFirstStepIsNotReadTheRecordHasItAllTheSame) {
    using Training = gx::Trainer<Net, gx::Ring<gx::fp32>, gx::Constant, gx::ContinueOnSurvivors,
                                 gx::DynamicLossScale>;
    for (const int lost : {1, 3}) {
        std::optional<gx::RunRecord> first;  // of those that do not repeat the step
        for (std::uint64_t seed = 1; seed <= 12; ++seed) {
            script = {.first = {.world = 0, .rank = lost, .calls = 1},
                      .second = {.world = -1},
                      .delay = 56,
                      .overflow = 0};
            MortalWorld world{{{4, 1}, seed, gx::testing::QueueProgress::random}};
            const auto record =
                Training({.batch = 2, .epochs = 2, .seed = 7}).train(world, images());
            ASSERT_EQ(record.losses.size(), 1u);
            if (record.losses[0].step == 0) continue;
            EXPECT_TRUE(record.steps[0].skipped);
            EXPECT_EQ(record.steps[0].loss_scale, 1024);
            EXPECT_EQ(record.steps[1].loss_scale, 512);
            if (!first) first = record;
            expect_same_learning(record, *first);
        }
        EXPECT_TRUE(first) << "some complete the gradient before the rank is lost";
    }
}

}  // namespace
