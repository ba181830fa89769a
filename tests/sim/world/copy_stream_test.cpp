#include <gx/sim/world/copy_stream.hpp>  // first, so the header is seen to stand alone

#include <string>  // what was said
#include <vector>  // batches

#include <gtest/gtest.h>

#include <gx/model/mlp.hpp>                    // Mlp
#include <gx/reference/device.hpp>             // reference::Device
#include <gx/sim/world/cluster.hpp>            // Cluster
#include <gx/sim/world/device.hpp>             // Device
#include <gx/sim/catalog/simple_clusters.hpp>  // v100_box
#include <gx/sim/race/monitor.hpp>             // detect_races

namespace {

using namespace gx::literals;
using gx::Access;
using gx::Nanoseconds;
using gx::sim::Activity;
using gx::sim::CopyEngines;
using gx::sim::CopyTo;

// ---- Virtual time ------------------------------------------------------------------------
TEST(CopyStream, TimePassesWhereSomebodyWaits) {
    gx::sim::Cluster<> world(gx::sim::ethernet_10g(1));
    world.run([](auto& rank) {
        gx::sim::CopyStream copies(rank, CopyEngines(2, 10_GBps));
        const auto batch = copies.copy({}, 1_MB, CopyTo::gpu, {"batch"});
        EXPECT_EQ(rank.now(), 0_us);
        rank.charge(30_us, "step", Activity::compute);
        copies.wait(batch, "batch");
        EXPECT_EQ(rank.now(), 100_us) << "70 us of it exposed";
        EXPECT_EQ(rank.busy().input, 70_us);
        copies.wait(batch, "batch");
        copies.wait({}, "nothing");
        EXPECT_EQ(rank.now(), 100_us);
    });
}

// ---- A loop that copies ahead, written by hand -------------------------------------------
enum class Fault { none, no_wait, one_buffer, result_not_waited_for };

/// Steps of 300 us, on the rank's stream; batches are copied meanwhile, for 100 us.
template <class Rank>
class Hand {
public:
    Hand(Rank& rank, int engines, Fault fault)
        : rank_(rank), copies_(rank, CopyEngines(engines, 10_GBps)), fault_(fault) {
        for (int i = 0; i < 2; ++i)
            note(Access::begin, batches_[i], {gx::Label("batch buffer ") + i});
        note(Access::begin, result_, {"result"});
    }
    Hand(const Hand&) = delete;
    Hand& operator=(const Hand&) = delete;
    ~Hand() {
        try {
            rank_.stream().wait(step_);
        } catch (const gx::Error&) {  // the race
        }
        for (auto& batch : batches_) note(Access::end, batch, {});
        note(Access::end, result_, {});
    }
    void run(std::int64_t steps) {
        copy(0);
        for (std::int64_t t = 0; t < steps; ++t) {
            if (fault_ != Fault::no_wait) copies_.wait(batch_, "batch");
            step_ = rank_.stream().enqueue({step, this, std::uint64_t(t)});
            rank_.charge(1_us, "launch");  // the step has begun
            copy(t + 1);
            rank_.stream().wait(step_);
            const auto back = copies_.copy(result_, 1000_B, CopyTo::host, {"copy of result", t});
            if (fault_ != Fault::result_not_waited_for) copies_.wait(back, "result");
        }
    }

private:
    std::vector<std::byte>& buffer(std::int64_t t) {
        return batches_[fault_ == Fault::one_buffer ? 0 : t % 2];
    }
    void copy(std::int64_t t) {
        batch_ = copies_.copy(buffer(t), 1_MB, CopyTo::gpu, {"copy of batch", t});
    }
    void note(Access access, std::span<const std::byte> memory, const gx::Operation& o) {
        rank_.stream().note(access, memory, o);
    }
    static void step(void* self, std::uint64_t number) {
        auto& me = *static_cast<Hand*>(self);
        const auto t = static_cast<std::int64_t>(number);
        me.note(Access::read, me.buffer(t), {"step", t});
        me.rank_.charge(300_us, "step");
        me.note(Access::write, me.result_, {"step", t});
    }

    Rank& rank_;
    gx::sim::CopyStream<Rank> copies_;
    Fault fault_;
    gx::sim::Copy batch_{};
    gx::Event step_{};
    std::vector<std::byte> batches_[2] = {std::vector<std::byte>(8), std::vector<std::byte>(8)};
    std::vector<std::byte> result_ = std::vector<std::byte>(4);
};
std::string by_hand(Fault fault, int engines = 2, bool detect_races = true) {
    gx::sim::Cluster<> world(gx::sim::ethernet_10g(1), {.detect_races = detect_races});
    try {
        world.run([&](auto& rank) { Hand(rank, engines, fault).run(4); });
    } catch (const gx::Error& e) {
        return e.what();
    }
    return {};
}

TEST(CopyStream, BatchesThatAreWaitedForAreRight) {
    EXPECT_EQ(by_hand(Fault::none), "");
    EXPECT_EQ(by_hand(Fault::none, 1), "") << "one engine for both ways";
}
TEST(CopyStream, ABatchThatIsCopiedWhileTheStepStillReadsTheLastIsFound) {
    const char* found =
        "race on rank 0: 'copy of batch 1' (copy engine to the GPU) writes bytes 0 to 8 of 'batch "
        "buffer 0', which 'step 0' (communication stream) reads, and nothing orders the two. Wait "
        "for the event of 'step 0' before 'copy of batch 1'.";
    EXPECT_EQ(by_hand(Fault::one_buffer), found);
    EXPECT_EQ(by_hand(Fault::one_buffer, 2, false), "") << "without looking, nothing is seen";
}
TEST(CopyStream, AStepThatDoesNotWaitForItsBatchIsFound) {
    EXPECT_EQ(by_hand(Fault::no_wait),
              "race on rank 0: 'step 0' (communication stream) reads bytes 0 to 8 of 'batch buffer "
              "0', which 'copy of batch 0' (copy engine to the GPU) writes, and nothing orders the "
              "two. Wait for the event of 'copy of batch 0' before 'step 0'.");
}
TEST(CopyStream, AResultThatIsOverwrittenWhileItIsCopiedBackIsFound) {
    const std::string said = by_hand(Fault::result_not_waited_for);
    EXPECT_NE(said.find("'step 1' (communication stream) writes bytes 0 to 4 of 'result', which "
                        "'copy of result 0' (copy engine to the host) reads"),
              std::string::npos)
        << said;
}

// ---- The simulated device ------------------------------------------------------------------
TEST(CopyStream, ADeviceThatCopiesItsInputsIsRight) {
    gx::sim::Cluster<gx::reference::Device> world(gx::sim::ethernet_10g(2),
                                                  {.copy_inputs = true, .detect_races = true});
    world.run([](auto& rank) {
        const auto graph = gx::graph<gx::Mlp<5>>({.input = {1, 2, 2}, .classes = 3});
        const auto device = rank.make_device(graph, {.batch = 2, .rank = rank.rank()});
        std::vector<float> images(8, 0.5f), gradients(device->parameters().size());
        std::vector<std::int32_t> labels(2, 1);
        for (int t = 0; t < 4; ++t) {
            (void)device->forward({images, labels, 2}, gx::Mode::train);
            device->backward(1.0f, gradients, [](std::size_t) {});
            device->update([](std::span<float>) {});
        }
    });
}

}  // namespace
