#include <gx/sim/race/monitor.hpp>

#include <optional>  // what was said
#include <string>    // what was said
#include <vector>    // gradients

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/model/mlp.hpp>                    // Mlp
#include <gx/reducer/bucketed.hpp>             // Bucketed
#include <gx/reducer/double_buffered.hpp>      // DoubleBuffered
#include <gx/reducer/multi_ring.hpp>           // MultiRing
#include <gx/reducer/pipeline.hpp>             // Pipeline
#include <gx/reducer/ring.hpp>                 // Ring
#include <gx/reference/device.hpp>             // Device
#include <gx/sim/world/cluster.hpp>            // Cluster
#include <gx/sim/world/device.hpp>             // Device
#include <gx/sim/catalog/simple_clusters.hpp>  // plain_p3_16xlarge

namespace {

using namespace gx::literals;
using gx::Access;
using gx::sim::Activity;
using Ring = gx::Ring<gx::fp32>;

template <class F>
std::string told(int ranks, F f, bool detect_races = true) {
    gx::sim::Cluster<> world(gx::sim::ethernet_10g(ranks), {.detect_races = detect_races});
    try {
        world.run(f);
    } catch (const gx::Error& e) {
        return e.what();
    }
    return {};
}
bool names(const std::string& text, std::initializer_list<const char*> parts) {
    for (const char* part : parts)
        if (text.find(part) == std::string::npos) return false;
    return true;
}

// ---- What is right is left alone ----------------------------------------------------------
/// Steps as a trainer makes them: gradients from the end down, reduced beside the computation.
template <class R>
void train(auto& rank, int steps, std::int64_t elements, std::int64_t bucket, bool keep) {
    gx::Pipeline pipeline(rank.stream(), rank.transport(),
                          {.elements = elements, .bucket_elements = bucket}, R());
    for (std::uint64_t t = 0; t < static_cast<std::uint64_t>(steps); ++t) {
        const auto gradients = pipeline.begin(t);
        for (auto end = gradients.size(); end > 0;) {
            const auto begin = end - std::min<std::size_t>(end, 7);
            const auto part = gradients.subspan(begin, end - begin);
            rank.charge(10_us, "backward", Activity::compute);
            gx::note(rank.stream(), Access::write, part, {"backward", std::int64_t(t)});
            std::fill(part.begin(), part.end(), 1.0f);
            pipeline.ready(end = begin);
        }
        if (keep) (void)pipeline.pending();
        if (const auto got = pipeline.collect(t))
            gx::note(rank.stream(), Access::read, got->values, {"update", std::int64_t(t)});
    }
    while (pipeline.drain()) {
    }
}
template <class R>
void says_nothing() {
    const int machines = *rc::gen::inRange(1, 4), gpus = *rc::gen::inRange(1, 4),
              steps = *rc::gen::inRange(0, 5);
    const auto elements = *rc::gen::inRange<std::int64_t>(1, 60),
               bucket = *rc::gen::inRange<std::int64_t>(0, 70);
    const bool keep = *rc::gen::arbitrary<bool>();
    auto spec = gx::sim::plain_p3_16xlarge(machines);
    spec.machine.gpus = gpus;
    gx::sim::Cluster<> world(spec, {.detect_races = true});
    world.run([&](auto& rank) {
        for (int again = 0; again < 2; ++again)
            train<R>(rank, steps, elements, bucket, keep);  // memory is used again
    });
}
TEST(RaceMonitor, RingsAreRight) {
    EXPECT_TRUE(rc::check([] { says_nothing<Ring>(); }));
    EXPECT_TRUE(rc::check([] { says_nothing<gx::MultiRing<3, gx::fp16>>(); }));
}
TEST(RaceMonitor, BucketsAndDoubleBuffersAreRight) {
    EXPECT_TRUE(rc::check([] { says_nothing<gx::Bucketed<gx::MultiRing<2, gx::fp32>, 64>>(); }));
    EXPECT_TRUE(rc::check([] { says_nothing<gx::DoubleBuffered<gx::Bucketed<Ring, 32>>>(); }));
    EXPECT_TRUE(rc::check([] { says_nothing<gx::DoubleBuffered<gx::DoubleBuffered<Ring>>>(); }));
}
TEST(RaceMonitor, TimesAndHashesStay) {
    const auto hash = [](bool detect_races) {
        gx::sim::Cluster<> world(gx::sim::ethernet_10g(3), {.detect_races = detect_races});
        world.run([](auto& rank) { train<Ring>(rank, 3, 40, 9, false); });
        return std::pair(world.event_hash(), world.elapsed());
    };
    EXPECT_EQ(hash(true), hash(false));
}
TEST(RaceMonitor, ADeviceIsRight) {
    gx::sim::Cluster<gx::reference::Device> world(gx::sim::ethernet_10g(2), {.detect_races = true});
    world.run([](auto& rank) {
        const auto graph = gx::graph<gx::Mlp<5>>({.input = {1, 2, 2}, .classes = 3});
        const auto device = rank.make_device(graph, {.batch = 2, .rank = rank.rank()});
        std::vector<float> images(8, 0.5f);
        std::vector<std::int32_t> labels(2, 1);
        gx::Pipeline pipeline(
            rank.stream(), rank.transport(),
            {.elements = std::int64_t(device->parameters().size()), .bucket_elements = 4},
            gx::DoubleBuffered<Ring>());
        for (std::uint64_t t = 0; t < 3; ++t) {
            const auto gradients = pipeline.begin(t);
            (void)device->forward({images, labels, 2}, gx::Mode::train);
            device->backward(1.0f, gradients,
                             [&](std::size_t watermark) { pipeline.ready(watermark); });
            pipeline.ready(0);
            if (pipeline.collect(t)) device->update([](std::span<float>) {});
        }
        while (pipeline.drain()) device->update([](std::span<float>) {});
    });
}

// ---- What is wrong is named -----------------------------------------------------------------
enum class Fault { none, no_wait, one_slot, late_gradient, early_update };

/// A double buffer written by hand, that can be wrong in the ways that such code is.
template <class Rank>
class Hand {
public:
    Hand(Rank& rank, Fault fault) : rank_(rank), fault_(fault) {
        for (int i = 0; i < 2; ++i)
            note(Access::begin, slots_[std::size_t(i)], {gx::Label("slot ") + i});
    }
    Hand(const Hand&) = delete;
    Hand& operator=(const Hand&) = delete;
    ~Hand() {
        for (const auto event : events_) {
            try {
                rank_.stream().wait(event);
            } catch (const gx::Error&) {  // the race
            }
        }
        for (auto& slot : slots_) note(Access::end, slot, {});
    }

    void step(std::int64_t t) {
        const bool late = fault_ == Fault::late_gradient;
        if (!late) backward(t);
        events_[index(t)] = rank_.stream().enqueue({reduce, this, std::uint64_t(t)});
        if (late) backward(t);
        const bool wait = fault_ != Fault::no_wait;
        if (fault_ == Fault::early_update) {
            note(Access::read, slot(t), {"update", t});
            rank_.stream().wait(events_[index(t)]);
        }
        if (t == 0) return;
        if (wait) rank_.stream().wait(events_[index(t - 1)]);
        note(Access::read, slot(t - 1), {"update", t - 1});
        rank_.charge(50_us, "update", Activity::compute);
    }

private:
    static std::size_t index(std::int64_t t) { return std::size_t(t % 2); }
    std::vector<float>& slot(std::int64_t t) {
        return slots_[fault_ == Fault::one_slot ? 0 : index(t)];
    }
    void note(Access access, std::span<const float> values, const gx::Operation& o) {
        gx::note(rank_.stream(), access, values, o);
    }
    void backward(std::int64_t t) {
        rank_.charge(100000_us, "backward", Activity::compute);  // longer than any reduction
        note(Access::write, slot(t), {"backward", t});
        std::fill(slot(t).begin(), slot(t).end(), float(t));
    }
    static void reduce(void* self, std::uint64_t step) {
        auto& me = *static_cast<Hand*>(self);
        const auto t = static_cast<std::int64_t>(step);
        me.note(Access::write, me.slot(t), {"all-reduce", t});
        (void)me.ring_.all_reduce(me.rank_.transport(), std::span(me.slot(t)));
        me.note(Access::write, me.slot(t), {"all-reduce", t});
    }

    Rank& rank_;
    Fault fault_;
    std::vector<float> slots_[2] = {std::vector<float>(12), std::vector<float>(12)};
    gx::Event events_[2]{};
    Ring ring_ = [this] {
        Ring r;
        r.reserve(gx::ReducePlan::whole(rank_.transport().placement(), 12));
        return r;
    }();
};
std::string by_hand(Fault fault, bool detect_races = true) {
    return told(
        3,
        [fault](auto& rank) {
            Hand hand(rank, fault);
            for (std::int64_t t = 0; t < 4; ++t) hand.step(t);
        },
        detect_races);
}

TEST(RaceMonitor, ADoubleBufferByHandIsRight) { EXPECT_EQ(by_hand(Fault::none), ""); }
TEST(RaceMonitor, AMissingWaitIsFoundThoughTheReductionWasFaster) {
    EXPECT_TRUE(
        names(by_hand(Fault::no_wait),
              {"race on rank ",
               "'update 0' (compute stream) reads bytes 0 to 48 of 'slot 0', which 'all-reduce 0' "
               "(communication stream) writes, and nothing orders the two. Wait for the event of "
               "'all-reduce 0' before 'update 0'."}));
    EXPECT_EQ(by_hand(Fault::no_wait, false), "") << "without looking, nothing is seen";
}
TEST(RaceMonitor, ADoubleBufferOfOneSlotIsFound) {
    EXPECT_TRUE(names(by_hand(Fault::one_slot),
                      {"'backward 1' (compute stream) writes bytes 0 to 48 of 'slot 0'",
                       "'all-reduce 0' (communication stream)"}))
        << by_hand(Fault::one_slot);
}
TEST(RaceMonitor, AGradientThatIsWrittenWhileItIsReducedIsFound) {
    EXPECT_TRUE(names(by_hand(Fault::late_gradient), {"'all-reduce 0'", "'backward 0'"}));
}
TEST(RaceMonitor, APipelineWhoseBucketsRaceEndsWithThatError) {
    const auto text = told(2, [](auto& rank) {
        gx::Pipeline pipeline(rank.stream(), rank.transport(),
                              {.elements = 20, .bucket_elements = 10}, Ring());
        const auto gradients = pipeline.begin(0);
        pipeline.ready(10);
        gx::note(rank.stream(), Access::write, gradients.subspan(8, 4), {"backward conv1"});
        pipeline.ready(0);
        (void)pipeline.collect(0);
    });
    EXPECT_TRUE(names(text, {"'all-reduce bucket 0 of step 0' (communication stream) writes bytes "
                             "40 to 48 of 'gradient slot 0', which 'backward conv1'"}))
        << text;
}
TEST(RaceMonitor, AnUpdateBeforeTheReductionEndedIsFound) {
    EXPECT_TRUE(names(by_hand(Fault::early_update), {"'update 0'", "'all-reduce 0'"}));
}

/// Two ranks; rank 0 sends, and does something to its memory before the send is done.
template <class F>
std::string sending(F f) {
    return told(2, [f](auto& rank) {
        std::vector<float> values(1000, 1.0f);
        auto& link = rank.transport();
        if (rank.rank() == 1) {
            EXPECT_LE(link.wait(link.receive(0, 7, std::as_writable_bytes(std::span(values)))).peer,
                      1);
            return;
        }
        const auto sent = link.send(1, 7, std::as_bytes(std::span(values)));
        f(rank, values);
        (void)link.wait(sent);
    });
}
TEST(RaceMonitor, ASendBufferRewrittenTooEarlyIsFound) {
    EXPECT_EQ(sending([](auto&, auto&) {}), "");
    EXPECT_EQ(sending([](auto& rank, auto& values) {
                  gx::note(rank.stream(), Access::write, std::span(values).first(10), {"pack", 3});
              }),
              "race on rank 0: 'pack 3' (compute stream) writes 40 bytes of its memory, which "
              "'send to rank 1' (compute stream) reads, and nothing orders the two. Wait for the "
              "send first, by its request.");
}
TEST(RaceMonitor, APayloadThatChangesUnderWayIsFoundThoughNobodyNotedIt) {
    EXPECT_EQ(sending([](auto&, auto& values) { values[999] = 2; }),
              "race on rank 0: 4000 bytes changed while 'send to rank 1' was sending them. Wait "
              "for the send, by its request, before writing there.");
}
TEST(RaceMonitor, TwoMessagesIntoOneBufferAreFound) {
    EXPECT_TRUE(names(told(2,
                           [](auto& rank) {
                               std::vector<std::byte> values(8);
                               auto& link = rank.transport();
                               const auto a = link.receive(1 - rank.rank(), 0, values);
                               const auto b = link.receive(1 - rank.rank(), 1, values);
                               (void)link.wait(a);
                               (void)link.wait(b);
                           }),
                      {"'receive from rank 1' (compute stream) writes 8 bytes",
                       "'receive from rank 1' (compute stream) writes, and nothing"}));
}
TEST(RaceMonitor, AnUpdateOnAStreamOfItsOwnMustBeWaitedFor) {
    EXPECT_TRUE(
        names(told(1,
                   [](auto& rank) {
                       std::vector<float> parameters(6);
                       gx::note(rank.stream(), Access::begin, parameters, {"parameters"});
                       struct Work {
                           decltype(rank)& r;
                           std::vector<float>& values;
                       } work{rank, parameters};
                       const auto event = rank.stream().enqueue(
                           {[](void* w, std::uint64_t) {
                                auto& [r, values] = *static_cast<Work*>(w);
                                gx::note(r.stream(), Access::write, values, {"update", 4});
                            },
                            &work, 0});
                       rank.charge(1_us, "load");
                       gx::note(rank.stream(), Access::read, parameters, {"forward", 5});
                       rank.stream().wait(event);
                   }),
              {"'forward 5' (compute stream) reads bytes 0 to 24 of 'parameters'", "'update 4'"}));
}

}  // namespace
