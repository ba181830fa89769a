#include <gx/sim/timing/nccl_model.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/sim/catalog/comm_stacks.hpp>  // the tables

namespace {

using gx::Bytes;
using gx::Nanoseconds;
using gx::sim::Algorithm;
using gx::sim::NcclCall;
using gx::sim::Protocol;
using namespace gx::literals;

/// 32 x p3.16xlarge on sockets: NCCL plans 25 Gb/s at 3.0 GB/s.
constexpr NcclCall p3(Bytes bytes) {
    return {.machines = 32, .ranks_per_machine = 8, .bytes = bytes, .bus_bandwidth = 3_GBps};
}
double ms(Nanoseconds t) { return gx::seconds(t) * 1e3; }

// ---- A case worked by hand ----------------------------------------------------------
// 8.4 + 448 x 3.4 + 62 x 14 = 2399.6 us, x 1.9; 3.0 x 256 / 510 GB/s.
static_assert(gx::sim::nccl_all_reduce_time(gx::sim::nccl_2_30, p3(1_MB)).latency ==
              Nanoseconds(4'559'240));
TEST(NcclCost, IsTheWorkedRingOf256) {
    const auto time = [](Bytes b) { return nccl_all_reduce_time(gx::sim::nccl_2_30, p3(b)); };
    EXPECT_NEAR(ms(time(1_MB).latency) / 1.9, 2.3996, 1e-6);
    EXPECT_NEAR(ms(time(1_MB).total()), 5.2, 0.05);
    EXPECT_NEAR(ms(time(25_MB).total()), 21.2, 0.05);
    EXPECT_NEAR(ms(time(100_MB).total()), 71.0, 0.05);
    EXPECT_NEAR(ms(time(100_MB).transfer), 100e6 / (3e9 * 256 / 510) * 1e3, 1e-6);
}
TEST(NcclCost, IsTheWorkedTreeOf256) {
    NcclCall c = p3(1_MB);
    c.algorithm = Algorithm::tree;
    const auto t = nccl_all_reduce_time(gx::sim::nccl_2_30, c);
    EXPECT_NEAR(ms(t.latency), 8.4e-3 + 2 * (7 * 4.0e-3 + 5 * 14e-3), 1e-9);  // 0.204
    EXPECT_NEAR(ms(t.transfer), 1e6 / (3e9 * 0.92 / 2 * 0.5) * 1e3, 1e-6) << "1 MB: half";
    EXPECT_EQ(nccl_choice(gx::sim::nccl_2_30, p3(1_MB)).algorithm, Algorithm::tree);
    EXPECT_EQ(nccl_choice(gx::sim::nccl_2_30, p3({4'000'000'000})).protocol, Protocol::simple);
}

// ---- Versions differ as their tables say --------------------------------------------
TEST(NcclCost, OldVersionsChargeTheNetworkAtEveryStep) {
    const auto old = nccl_all_reduce_time(gx::sim::nccl_2_5, p3(25_MB));
    EXPECT_NEAR(ms(old.latency), 1.9 * (8.4 + 510 * 6.6) * 1e-3, 1e-6);
    const auto next = nccl_all_reduce_time(gx::sim::nccl_2_10, p3(25_MB));
    EXPECT_NEAR(ms(next.latency), 1.9 * (8.4 + 448 * 3.4 + 62 * 9.6) * 1e-3, 1e-6);
}
TEST(NcclCost, ProtocolsCostBandwidth) {
    NcclCall c{.ranks_per_machine = 8, .bytes = 100_MB, .bus_bandwidth = 120_GBps, .channels = 6};
    const auto rate = [&](Protocol p) {
        c.protocol = p;
        return 100e6 / gx::seconds(nccl_all_reduce_time(gx::sim::nccl_2_30, c).transfer) * 14 / 8;
    };
    EXPECT_NEAR(rate(Protocol::simple) * 1e-9, 120, 0.01);
    EXPECT_NEAR(rate(Protocol::ll128) * 1e-9, 0.92 * 120, 0.01);
    EXPECT_NEAR(rate(Protocol::ll) * 1e-9, 39, 0.01) << "the cap of Volta, one machine";
}
TEST(NcclCost, LL128NeedsVoltaAndNvlink) {
    NcclCall c{.protocol = Protocol::ll128, .compute_capability = 60};
    EXPECT_FALSE(gx::sim::nccl_enables(c));
    c.compute_capability = 70;
    EXPECT_TRUE(gx::sim::nccl_enables(c));
    c.inside = gx::sim::LinkClass::pci;
    EXPECT_FALSE(gx::sim::nccl_enables(c));
}

// ---- A property, for any call -------------------------------------------------------
RC_GTEST_PROP(NcclCost, NoTimeIsBelowTheFloorOfItsBusAndMoreRanksAreNotFaster, ()) {
    NcclCall c{.machines = *rc::gen::inRange(1, 100),
               .ranks_per_machine = *rc::gen::inRange(1, 9),
               .bytes = {*rc::gen::inRange<std::int64_t>(0, 1'000'000'000)},
               .algorithm = *rc::gen::element(Algorithm::ring, Algorithm::tree),
               .protocol = *rc::gen::element(Protocol::ll, Protocol::ll128, Protocol::simple),
               .bus_bandwidth = {1e9 * *rc::gen::inRange(1, 300)}};
    RC_PRE(c.ranks() > 1);
    for (const auto* profile : {&gx::sim::nccl_2_5, &gx::sim::nccl_2_10, &gx::sim::nccl_2_30}) {
        const auto t = nccl_all_reduce_time(*profile, c);
        const double moved = 2.0 * (c.ranks() - 1) / c.ranks() * double(c.bytes.count);
        RC_ASSERT(gx::seconds(t.total()) * 1e9 + 1 >= moved / c.bus_bandwidth.count * 1e9);
        NcclCall wider = c;
        wider.machines *= 2;
        RC_ASSERT(nccl_all_reduce_time(*profile, wider).latency >= t.latency);
    }
}

// ---- Bad input ----------------------------------------------------------------------
TEST(NcclCostDeathTest, RefusesACallWithoutBandwidth) {
    EXPECT_DEATH((void)nccl_all_reduce_time(gx::sim::exact, NcclCall{}), "bus bandwidth above 0");
}

}  // namespace
