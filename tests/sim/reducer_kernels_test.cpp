// What a simulated cluster charges for a reducer's own kernels: casts, scalings, sums, selections.
#include <algorithm>  // max
#include <bit>        // bit_cast
#include <cstdint>    // int64_t
#include <vector>     // rows

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/memory/kernels.hpp>               // Fill
#include <gx/parameter_server/reducer.hpp>     // ParameterServer
#include <gx/quantized/reducer.hpp>            // Quantized
#include <gx/reducer/multi_ring.hpp>           // MultiRing
#include <gx/reducer/ring.hpp>                 // Ring
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/sim/fault/faults.hpp>             // DeadGpu, SlowGpu
#include <gx/sim/timing/all_reduce_time.hpp>   // all_reduce_time
#include <gx/sim/world/cluster.hpp>            // Cluster
#include <gx/top_k/reducer.hpp>                // TopK

namespace {

using namespace gx::literals;
using gx::Nanoseconds;
using gx::sim::Activity;
using gx::sim::ClusterOptions;
using gx::sim::ClusterSpec;
using World = gx::sim::Cluster<>;

/// Ranks of 1 byte a ns, 100 ns a message, and of kernels that move 50 bytes a ns, one in 3 us.
ClusterSpec ranks(int n) {
    auto spec = gx::sim::ethernet_10g(n);
    spec.machine.nic_line_rate = 8_Gbps;
    spec.goodput = 1;
    spec.flow_cap = {0};
    spec.latency = Nanoseconds(100);
    spec.machine.gpu.memory_bandwidth = 100_GBps;
    spec.machine.gpu.efficiency_fp32.memory = 0.5;
    spec.machine.gpu.launch = 3_us;
    return spec;
}
Nanoseconds kernel(std::int64_t bytes) {
    return bytes == 0 ? 0_us : 3_us + Nanoseconds(bytes / 50);
}
Nanoseconds message(std::int64_t bytes) { return Nanoseconds(100 + bytes); }

struct Outcome {
    Nanoseconds elapsed{};
    std::uint64_t hash = 0;
    std::vector<std::vector<float>> rows{};  ///< of each rank, afterwards
    std::vector<gx::sim::BusyTime> busy{};
};
/// One reduction of `elements` on each rank's own fiber, over what `linked` makes of its transport.
template <class R>
Outcome reduced(const ClusterSpec& spec, std::size_t elements, ClusterOptions options, auto linked,
                gx::sim::WireScale scale = {}) {
    World world(spec, std::move(options));
    Outcome run;
    run.rows.resize(static_cast<std::size_t>(spec.ranks()));
    world.run([&](auto& rank) {
        auto& row = run.rows[static_cast<std::size_t>(rank.rank())];
        for (std::size_t i = 0; i < elements; ++i)
            row.push_back(static_cast<float>(i % 97) * 0.37f + static_cast<float>(rank.rank()));
        rank.wire_scale(scale);
        R reducer;
        reducer.reserve({.placement = spec.placement(),
                         .elements = static_cast<std::int64_t>(elements),
                         .bucket_elements = static_cast<std::int64_t>(elements)});
        auto link = linked(rank.transport());
        EXPECT_TRUE(reducer.all_reduce(link, gx::Bucket(std::span(row))).complete());
    });
    run.elapsed = world.elapsed();
    run.hash = world.event_hash();
    for (int r = 0; r < spec.ranks(); ++r) run.busy.push_back(world.busy(r));
    return run;
}
constexpr auto as_it_is = [](gx::sim::Endpoint& link) { return gx::sim::Endpoint(link); };
template <class R>
Outcome reduced(const ClusterSpec& spec, std::size_t elements, bool charged = true,
                gx::sim::WireScale scale = {}) {
    return reduced<R>(spec, elements, {.charge_reducer_kernels = charged}, as_it_is, scale);
}

// ---- Cases worked by hand -----------------------------------------------------------
constexpr std::size_t million = 1'000'000;

TEST(ReducerKernels, ARingOfHalvesIsCastTwice) {
    // Read 4 bytes and write 2 of each value: 6 MB at 50 bytes a ns, and a launch. Two steps send
    // 500,000 values of 2 bytes each.
    const Nanoseconds wire = 2 * message(1'000'000);
    EXPECT_EQ(kernel(6'000'000).count(), 123'000);
    const Outcome run = reduced<gx::Ring<gx::fp16>>(ranks(2), million);
    EXPECT_EQ(run.elapsed.count(), 2'000'200 + 2 * 123'000);
    EXPECT_EQ(run.busy[0].exposed_communication, run.elapsed) << "on the rank's own fiber";
    EXPECT_EQ(reduced<gx::Ring<gx::fp16>>(ranks(2), million, false).elapsed, wire);
}
TEST(ReducerKernels, ARingOfFloatsIsScaledWhereItsFactorIsNotOne) {
    const Nanoseconds scale = kernel(8'000'000), wire = 2 * message(2'000'000);
    // DivideSplit multiplies by 1/2 before and by 1 after.
    EXPECT_EQ(reduced<gx::Ring<gx::fp32>>(ranks(2), million).elapsed, scale + wire);
    EXPECT_EQ(reduced<gx::Ring<gx::fp32>>(ranks(1), million).elapsed.count(), 0);
    // Of 4 ranks, by 1/2 and by 1/2.
    EXPECT_EQ(reduced<gx::Ring<gx::fp32>>(ranks(4), million).elapsed,
              2 * scale + 6 * message(1'000'000));
}
TEST(ReducerKernels, AServersSumsAreChargedWhole) {
    // Rank 0 serves a million values: it decodes its own, adds those of rank 1 (2 bytes read, 4
    // read and written), and encodes the mean, between two messages and two casts on each rank.
    using Server = gx::ParameterServer<gx::fp16>;
    World world(ranks(2));
    world.run([&](auto& rank) {
        std::vector<float> row(million, 1.0f);
        Server server({.servers = 1});
        server.reserve({.placement = {2, 1}, .elements = million, .bucket_elements = million});
        EXPECT_TRUE(server.all_reduce(rank.transport(), gx::Bucket(std::span(row))).complete());
    });
    const Nanoseconds cast = kernel(6'000'000), add = kernel(10'000'000);
    EXPECT_EQ(world.elapsed(), 4 * cast + add + 2 * message(2'000'000));
}
TEST(ReducerKernels, ASelectionIsChargedWhole) {
    // 10,000 of a million: the stated traffic of both kernels, and one message of 8 bytes each.
    const Nanoseconds choose = kernel(32'000'000 + 120'000), add = kernel(12'000'000 + 320'000);
    EXPECT_EQ(reduced<gx::TopK>(ranks(2), million).elapsed, choose + message(80'000) + add);
}
TEST(ReducerKernels, AreScaledToTheTimedModelAsMessagesAre) {
    const gx::sim::WireScale thrice{3, 1}, third{1, 3};
    EXPECT_EQ(reduced<gx::Ring<gx::fp16>>(ranks(2), million, true, thrice).elapsed,
              2 * kernel(18'000'000) + 2 * message(3'000'000));
    EXPECT_EQ(reduced<gx::Ring<gx::fp16>>(ranks(2), 3 * million, true, third).elapsed,
              2 * kernel(6'000'000) + 2 * message(1'000'000));
}
TEST(ReducerKernels, OverlapWithTheModelsKernelsOnAStream) {
    World world(ranks(2));
    world.run([](auto& rank) {
        std::vector<float> row(million, 1.0f);
        gx::Ring<gx::fp16> ring;
        ring.reserve({.placement = {2, 1}, .elements = million, .bucket_elements = million});
        auto reduce = [&] { (void)ring.all_reduce(rank.transport(), gx::Bucket(std::span(row))); };
        const auto event = rank.stream().enqueue(
            {[](void* f, std::uint64_t) { (*static_cast<decltype(reduce)*>(f))(); }, &reduce, 0});
        rank.charge(1000_us, "backward", Activity::compute);
        rank.stream().wait(event);
    });
    EXPECT_EQ(world.elapsed().count(), 2'246'200);
    EXPECT_EQ(world.busy(0).communication.count(), 2'246'200);
    EXPECT_EQ(world.busy(0).compute, 1000_us);
    EXPECT_EQ(world.busy(0).exposed_communication.count(), 1'246'200);
}
// The collective's own kernel sums while messages arrive, at 50 / 3 bytes a ns: below this link.
TEST(ReducerKernels, SumsOfACollectiveAreNoSlowerThanTheirMessagesOrCapThem) {
    auto spec = ranks(2);
    const Nanoseconds sums{500'000 * 4 * 3 / 50};
    spec.machine.nic_line_rate = 800_Gbps;  // 100 bytes a ns
    spec.machine.host_bandwidth = 1000_GBps;
    const auto run = reduced<gx::Ring<gx::fp32>>(spec, million);
    EXPECT_EQ(run.elapsed, kernel(8'000'000) + 2 * (Nanoseconds(100) + sums));
    EXPECT_EQ(reduced<gx::Ring<gx::fp32>>(spec, million, false).elapsed,
              2 * (Nanoseconds(100) + 20_us));
    EXPECT_EQ(run.rows, reduced<gx::Ring<gx::fp32>>(spec, million, false).rows);
}

// ---- Properties ---------------------------------------------------------------------
template <class R>
class ReducerKernelsOf : public ::testing::Test {};
using Reducers =
    ::testing::Types<gx::Ring<gx::fp32>, gx::Ring<gx::bf16>, gx::MultiRing<3, gx::fp16>,
                     gx::ParameterServer<gx::fp16>, gx::Quantized<8>, gx::TopK>;
TYPED_TEST_SUITE(ReducerKernelsOf, Reducers);

TYPED_TEST(ReducerKernelsOf, ChangeTimesAndNeverValues) {
    const bool holds = rc::check([] {
        const auto spec = ranks(*rc::gen::inRange(1, 6));
        const auto elements = *rc::gen::inRange<std::size_t>(0, 3000);
        const Outcome on = reduced<TypeParam>(spec, elements);
        const Outcome off = reduced<TypeParam>(spec, elements, false);
        RC_ASSERT(on.rows == off.rows);
        RC_ASSERT(on.elapsed >= off.elapsed);
        if (elements == 0) RC_ASSERT(on.elapsed == off.elapsed && on.hash == off.hash);
    });
    EXPECT_TRUE(holds);
}
TYPED_TEST(ReducerKernelsOf, TakeLongerForMoreBytes) {
    Nanoseconds before{};
    for (const std::size_t elements : {2'048u, 20'480u, 204'800u}) {
        const Nanoseconds extra = reduced<TypeParam>(ranks(4), elements).elapsed -
                                  reduced<TypeParam>(ranks(4), elements, false).elapsed;
        EXPECT_GT(extra, before) << elements;
        before = extra;
    }
}
RC_GTEST_PROP(ReducerKernels, OfARingAddTwoCastsWhateverItsSize, ()) {
    const auto spec = ranks(*rc::gen::inRange(2, 6));
    const auto elements = *rc::gen::inRange<std::size_t>(1, 5000);
    const Nanoseconds cast =
        gx::sim::VectorKernels(spec.machine.gpu).time({6 * std::int64_t(elements)});
    RC_ASSERT(reduced<gx::Ring<gx::fp16>>(spec, elements).elapsed ==
              reduced<gx::Ring<gx::fp16>>(spec, elements, false).elapsed + 2 * cast);
}

// ---- Without the charge ---------------------------------------------------------------
TEST(ReducerKernels, UnchargedLeaveEventsAsTheyWereBeforeTheyWereCharged) {
    const auto hash = []<class R>(R, bool charged) {
        return reduced<R>(ranks(3), 999, charged).hash;
    };
    EXPECT_EQ(hash(gx::Ring<gx::fp16>(), false), 0x15898d32993580cbu);
    EXPECT_EQ(hash(gx::MultiRing<3, gx::fp32>(), false), 0x8c42f72fc218acd5u);
    EXPECT_EQ(hash(gx::ParameterServer<gx::fp16>(), false), 0x53e793576c7192a1u);
    EXPECT_EQ(hash(gx::Quantized<8>(), false), 0x5e052ce0189745b7u);
    EXPECT_EQ(hash(gx::TopK(), false), 0xd8054cd26b38675fu);
    EXPECT_NE(hash(gx::Ring<gx::fp16>(), true), hash(gx::Ring<gx::fp16>(), false));
}

// ---- Faults ---------------------------------------------------------------------------
TEST(ReducerKernels, AreSlowedWithTheirGpu) {
    const auto run = reduced<gx::Ring<gx::fp16>>(
        ranks(2), million, {.faults = {gx::sim::SlowGpu{.rank = 1, .factor = 2}}}, as_it_is);
    EXPECT_EQ(run.elapsed.count(), 2'000'200 + 4 * 123'000);
}
TEST(ReducerKernels, EndWithTheirRank) {
    World world(ranks(2), {.faults = {gx::sim::DeadGpu{.rank = 1, .at = 60_us}}});
    world.run([](auto& rank) {
        std::vector<float> row(million, 1.0f);
        gx::Ring<gx::fp16> ring;
        ring.reserve({.placement = {2, 1}, .elements = million, .bucket_elements = million});
        const auto report = ring.all_reduce(rank.transport(), gx::Bucket(std::span(row)));
        EXPECT_EQ(rank.rank(), 0) << "the other dies while it casts";
        EXPECT_EQ(report.delivery.peer, 1);
    });
    EXPECT_TRUE(world.died(1));
}

// ---- Charges that must not pass ---------------------------------------------------------
/// A transport whose kernels cost what `charge` makes of their traffic.
struct Mutant : gx::sim::Endpoint {
    using Charge = void (*)(gx::sim::Endpoint&, std::int64_t traffic);
    struct Queue {
        using Memory = gx::HostMemory;
        Mutant* link;
    };
    Mutant(const gx::sim::Endpoint& link, Charge c) : Endpoint(link), charge(c) {}
    Queue queue() { return {this}; }
    Charge charge;
};
template <gx::DeviceKernel K, class... Arguments>
void launch(Mutant::Queue queue, const K& kernel, Arguments... arguments) {
    queue.link->charge(*queue.link, gx::traffic_bytes(kernel, arguments...));
    kernel(arguments...);
}
TEST(ReducerKernels, ChargesThatMustNotPass) {
    using Link = gx::sim::Endpoint;
    constexpr gx::sim::WireScale thrice{3, 1};
    const auto time = [&](Mutant::Charge charge) {
        return reduced<gx::Ring<gx::fp16>>(
                   ranks(2), million, {},
                   [charge](const Link& link) { return Mutant(link, charge); }, thrice)
            .elapsed;
    };
    const Nanoseconds right = 2 * kernel(18'000'000) + 2 * message(3'000'000);
    EXPECT_EQ(time([](Link& l, std::int64_t t) { l.spend("right", {t}); }), right);
    const Mutant::Charge wrong[] = {
        [](Link&, std::int64_t) {},  // never
        [](Link& l, std::int64_t t) { l.spend("twice", {t}), l.spend("twice", {t}); },
        [](Link& l, std::int64_t t) { l.spend("all of 4 bytes", {t / 6 * 8}); },
        [](Link& l, std::int64_t t) { l.spend("what is written", {t / 6 * 2}); },
        [](Link& l, std::int64_t t) { l.spend("not scaled", {t / 3}); },
        [](Link& l, std::int64_t t) { l.spend("scaled twice", {3 * t}); },
        [](Link& l, std::int64_t t) { l.spend("two launches", {t - 1}), l.spend("", {1}); }};
    for (const auto charge : wrong) EXPECT_NE(time(charge), right);
}

}  // namespace
