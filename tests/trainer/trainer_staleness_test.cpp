// Late gradients through the whole Trainer, against the serial answer: bit for bit.
#include <gx/trainer/trainer.hpp>

#include <algorithm>  // copy

#include <gtest/gtest.h>

#include <gx/model/init.hpp>               // initial_parameters
#include <gx/reducer/double_buffered.hpp>  // DoubleBuffered
#include <gx/reducer/ring.hpp>             // Ring
#include <gx/reference/delayed_sgd.hpp>    // delayed_sgd
#include <trainer/small.hpp>               // images, threads

namespace {

using namespace testing_support;
using gx::fp32;
using gx::reference::Device;
using Schedule = gx::Warmup<gx::Poly<2>>;

/// Gradients of `ranks` ranks, one after the other, and their mean as a ring of two makes it:
/// halves are exact and a sum of two has one order, so float rounds it as the ring does.
class Serial {
public:
    Serial(const gx::Split& data, int ranks, int batch)
        : ranks_(ranks), graph_(gx::graph<Net>({.input = data.train.shape, .classes = 3})) {
        for (int r = 0; r < ranks; ++r) {
            const gx::LoaderOptions share{.batch = batch, .ranks = ranks, .rank = r, .seed = 1};
            loaders_.emplace_back(data.train, share);
            devices_.emplace_back(graph_, gx::DeviceOptions{.batch = batch, .seed = 1, .rank = r});
        }
    }
    [[nodiscard]] std::int64_t steps_per_epoch() const { return loaders_[0].steps_per_epoch(); }

    std::vector<float> operator()(std::uint64_t update, std::span<const float> parameters) {
        const auto steps = std::uint64_t(steps_per_epoch());
        std::vector<float> mean(parameters.size(), 0.0f), mine(parameters.size());
        for (std::size_t r = 0; r < loaders_.size(); ++r) {
            loaders_[r].begin_epoch(int(update / steps));
            gx::RankBatch next = loaders_[r].next();
            for (std::uint64_t s = 0; s < update % steps; ++s) next = loaders_[r].next();
            devices_[r].update(
                [&](std::span<float> w) { std::ranges::copy(parameters, w.begin()); });
            (void)devices_[r].forward(next.batch, gx::Mode::train);
            devices_[r].backward(float(ranks_) / float(next.global_count), mine,
                                 [](std::size_t) {});
            const float share = ranks_ == 2 ? 0.5f : 1.0f;
            for (std::size_t k = 0; k < mean.size(); ++k) mean[k] += mine[k] * share;
        }
        return mean;
    }

    /// The bits of the final weights after `epochs`, with gradients `staleness` updates late.
    std::uint64_t train(int epochs, int staleness) {
        std::vector<float> initial(std::size_t(graph_.parameter_elements()));
        gx::initial_parameters(graph_, 1, initial);
        const gx::Plan plan{.total_steps = epochs * steps_per_epoch(),
                            .steps_per_epoch = steps_per_epoch(),
                            .ranks = ranks_};
        const Schedule schedule(gx::complete_options<Schedule>({}, plan));
        std::vector<float> decay(initial.size(), 0.0f);
        for (const gx::Parameter& p : graph_.parameters)
            if (p.role == gx::ParameterRole::weight)
                std::fill_n(decay.begin() + p.offset, p.count, 1e-4f);
        const auto w = gx::reference::delayed_sgd(
            initial, std::uint64_t(plan.total_steps),
            {.staleness = staleness, .momentum = 0.9f, .decay = decay}, std::ref(*this),
            [&](std::uint64_t u) { return schedule.rate(gx::Step(u)); });
        return gx::hash_bits(w.back());
    }

private:
    int ranks_;
    gx::Graph graph_;
    std::vector<gx::InMemory<>> loaders_;
    std::vector<Device> devices_;
};

template <class R>
gx::RunRecord train(int ranks, int epochs) {
    auto world = threads(ranks);
    return gx::Trainer<Net, R, Schedule>({.batch = 4, .epochs = epochs}).train(world, images());
}

template <class R>
void expect_serial_answer() {
    const gx::Split data = images();  // 40 images: tails of 4 among 8
    for (const int ranks : {1, 2})
        for (const int epochs : {1, 3}) {
            const gx::RunRecord record = train<R>(ranks, epochs);
            Serial serial(data, ranks, 4);
            EXPECT_EQ(record.weights_hash, serial.train(epochs, R::staleness))
                << ranks << " ranks, " << epochs << " epochs";
            EXPECT_NE(record.weights_hash, serial.train(epochs, R::staleness + 1));
            EXPECT_EQ(record.steps.size(), std::size_t(epochs * serial.steps_per_epoch()));
        }
}

TEST(Staleness, NoneIsSerialSgd) { expect_serial_answer<gx::Ring<fp32>>(); }
TEST(Staleness, OneIsDelayedSgd) { expect_serial_answer<gx::DoubleBuffered<gx::Ring<fp32>>>(); }
TEST(Staleness, TwoIsSgdDelayedTwice) {
    expect_serial_answer<gx::DoubleBuffered<gx::DoubleBuffered<gx::Ring<fp32>>>>();
}
TEST(Staleness, RowsTellTheRateOfTheGradientThatIsApplied) {
    const gx::RunRecord prompt = train<gx::Ring<fp32>>(2, 2);
    const gx::RunRecord late = train<gx::DoubleBuffered<gx::Ring<fp32>>>(2, 2);
    ASSERT_EQ(prompt.steps.size(), late.steps.size());
    EXPECT_EQ(late.steps[0].rate, 0) << "the first step has nothing to apply";
    for (std::size_t i = 1; i < late.steps.size(); ++i)
        EXPECT_EQ(late.steps[i].rate, prompt.steps[i - 1].rate);
}

}  // namespace
