#include <gx/sim/world/pass_workers.hpp>  // first, so the header is seen to stand alone

#include <atomic>              // passes that are computed
#include <chrono>              // a limit for a wait that must not last
#include <condition_variable>  // passes that wait for each other
#include <cstdint>             // event_hash
#include <deque>               // passes stay where they are
#include <functional>          // function
#include <mutex>               // passes that wait for each other
#include <stdexcept>           // runtime_error
#include <string>              // errors
#include <thread>              // ids
#include <vector>              // orders

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/core/error.hpp>                   // Error
#include <gx/reducer/double_buffered.hpp>      // DoubleBuffered
#include <gx/reducer/ring.hpp>                 // Ring
#include <gx/reference/device.hpp>             // reference::Device
#include <gx/scheduler/constant.hpp>           // Constant
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/sim/world/device.hpp>             // sim::Device
#include <gx/trainer/trainer.hpp>              // Trainer
#include <trainer/small.hpp>                   // EveryRole, images

namespace {

using gx::sim::detail::Pass;
using gx::sim::detail::PassWorkers;

// ---- Passes ---------------------------------------------------------------------------
TEST(Pass, IsComputedByItsConstructorWithoutWorkers) {
    int computed = 0;
    const auto compute = [&] { ++computed; };
    Pass pass(nullptr, compute);
    EXPECT_EQ(computed, 1);
    pass.finish();
    EXPECT_EQ(computed, 1);
    const auto fail = [] { throw std::runtime_error("no number"); };
    Pass failed(nullptr, fail);
    EXPECT_THROW(failed.finish(), std::runtime_error);
}
TEST(Pass, IsComputedByTheThreadThatFinishesItWhereThereIsNoOther) {
    PassWorkers one(1);
    EXPECT_EQ(one.threads(), 1);
    std::vector<int> order;
    const auto first = [&] { order.push_back(1); };
    const auto second = [&] { order.push_back(2); };
    Pass a(&one, first), b(&one, second);
    EXPECT_TRUE(order.empty());
    b.finish();
    EXPECT_EQ(order, (std::vector{1, 2})) << "in the order in which they began";
    a.finish();
    EXPECT_EQ(order.size(), 2u);
}
RC_GTEST_PROP(Pass, IsComputedOnceAndHasBeenWhenItIsFinished, ()) {
    const auto threads = *rc::gen::inRange(1, 6);
    const auto fails = *rc::gen::container<std::vector<bool>>(rc::gen::arbitrary<bool>());
    auto order = *rc::gen::exec([&] {
        std::vector<std::size_t> all(fails.size());
        for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
        for (std::size_t i = all.size(); i > 1; --i)
            std::swap(all[i - 1], all[*rc::gen::inRange<std::size_t>(0, i)]);
        return all;
    });
    order.resize(*rc::gen::inRange<std::size_t>(0, order.size() + 1));  // the others are dropped
    std::vector<std::atomic<int>> computed(fails.size());
    PassWorkers workers(threads);
    {
        std::deque<std::function<void()>> work;
        std::deque<Pass> passes;
        for (std::size_t i = 0; i < fails.size(); ++i) {
            work.emplace_back([&, i] {
                ++computed[i];
                if (fails[i]) throw gx::Error("pass " + std::to_string(i));
            });
            passes.emplace_back(&workers, work.back());
        }
        for (const std::size_t i : order) {
            std::string error;
            try {
                passes[i].finish();
            } catch (const gx::Error& e) {
                error = e.what();
            }
            RC_ASSERT(computed[i] == 1);
            RC_ASSERT(error == (fails[i] ? "pass " + std::to_string(i) : ""));
            passes[i].finish();  // the error is thrown once
        }
    }
    for (const auto& times : computed) RC_ASSERT(times == 1);
}

// ---- Ranks of a cluster -----------------------------------------------------------------

/// Two passes that wait for each other.
struct Meeting {
    bool meet() {
        std::unique_lock lock(mutex);
        ++here;
        both.notify_all();
        return both.wait_for(lock, std::chrono::minutes(1), [&] { return here >= 2; });
    }
    std::mutex mutex{};
    std::condition_variable both{};
    int here = 0;
};
struct Meets : gx::reference::Device {
    using Device::Device;
    static constexpr bool concurrent_passes = true;
    gx::ForwardReport forward(const gx::Batch& batch, gx::Mode mode) {
        if (meeting && !meeting->meet()) throw gx::Error("the other rank's pass does not begin");
        return Device::forward(batch, mode);
    }
    static inline Meeting* meeting = nullptr;
};
using Clusters = gx::sim::Cluster<Meets>;
using gx::sim::ethernet_10g;
using Net = testing_support::EveryRole;

TEST(ConcurrentPasses, AreComputedAtOnce) {
    Meeting meeting;
    Meets::meeting = &meeting;
    Clusters world(ethernet_10g(2), {.threads = 2});
    const auto graph = gx::graph<Net>();
    const std::vector<float> images(16, 0.5f);
    const std::vector<std::int32_t> labels{1};
    EXPECT_NO_THROW(world.run([&](auto& rank) {
        auto device = rank.make_device(graph, {.batch = 1, .rank = rank.rank()});
        (void)device->forward({images, labels, 1}, gx::Mode::train);
    }));
    Meets::meeting = nullptr;
    EXPECT_EQ(meeting.here, 2);
}

template <class R>
gx::RunRecord train(int threads) {
    Clusters world(ethernet_10g(5), {.seed = 3, .compute_jitter = 0.3, .threads = threads});
    gx::Trainer<Net, R, gx::Constant> trainer({.batch = 3, .epochs = 2, .seed = 7});
    return trainer.train(world, testing_support::images());
}
template <class R>
void no_bit_depends_on_threads() {
    const gx::RunRecord one = train<R>(1);
    for (const int threads : {2, 5, 0}) {
        const gx::RunRecord many = train<R>(threads);
        EXPECT_EQ(many.weights_hash, one.weights_hash) << threads;
        EXPECT_EQ(many.event_hash, one.event_hash) << threads;
        EXPECT_EQ(many.seconds, one.seconds) << threads;
    }
}
TEST(ConcurrentPasses, ChangeNoBit) {
    no_bit_depends_on_threads<gx::Ring<gx::fp16>>();
    no_bit_depends_on_threads<gx::DoubleBuffered<gx::Ring<gx::fp32>>>();
}

/// Every forward fails; whose ends first depends on the jitter.
struct Fails : gx::reference::Device {
    Fails(const gx::Graph& graph, gx::DeviceOptions options)
        : Device(graph, options), rank(options.rank) {}
    static constexpr bool concurrent_passes = true;
    gx::ForwardReport forward(const gx::Batch&, gx::Mode) {
        throw gx::Error("no forward of rank " + std::to_string(rank));
    }
    int rank;
};
struct Failure {
    std::string error{};
    gx::Nanoseconds elapsed{};
    std::uint64_t event_hash = 0;
    bool operator==(const Failure&) const = default;
};
Failure failure(std::uint64_t seed, int threads) {
    gx::sim::Cluster<Fails> world(ethernet_10g(5),
                                  {.seed = seed, .compute_jitter = 0.3, .threads = threads});
    gx::Trainer<Net, gx::Ring<gx::fp32>, gx::Constant> trainer({.batch = 3, .epochs = 1});
    Failure f;
    try {
        (void)trainer.train(world, testing_support::images());
    } catch (const gx::Error& e) {
        f.error = e.what();
    }
    f.elapsed = world.elapsed();
    f.event_hash = world.event_hash();
    return f;
}
TEST(ConcurrentPasses, ChangeNoError) {
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
        const Failure one = failure(seed, 1);
        EXPECT_NE(one.error.find("no forward of rank"), std::string::npos) << one.error;
        EXPECT_GT(one.elapsed.count(), 0) << "a pass that fails takes its time";
        for (const int threads : {2, 5}) {
            const Failure many = failure(seed, threads);
            EXPECT_EQ(many.error, one.error) << threads;
            EXPECT_TRUE(many == one) << threads;
        }
    }
}

TEST(ConcurrentPasses, AreAtMostAsManyAsRanksAndThreads) {
    const auto threads = [](int ranks, int asked) {
        int at_once = 0;
        Clusters world(ethernet_10g(ranks), {.threads = asked});
        world.run([&](auto& rank) {
            const auto* workers = rank.pass_workers();
            at_once = workers ? workers->threads() : 1;
        });
        return at_once;
    };
    EXPECT_EQ(threads(1, 4), 1);
    EXPECT_EQ(threads(3, 4), 3);
    EXPECT_EQ(threads(4, 2), 2);
    EXPECT_EQ(threads(4, 1), 1);
    EXPECT_THROW(Clusters(ethernet_10g(2), {.threads = -1}), gx::Error);
}

}  // namespace
