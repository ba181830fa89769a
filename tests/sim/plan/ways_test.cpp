#include <gx/sim/plan/ways.hpp>

#include <gtest/gtest.h>

#include <gx/model/cifar_resnet.hpp>       // ResNet8
#include <gx/reducer/double_buffered.hpp>  // DoubleBuffered
#include <gx/reducer/ring.hpp>             // Ring
#include <gx/sim/machines.hpp>             // ethernet_10g
#include <gx/sim/plan/page.hpp>            // page

namespace {

using gx::sim::plan::Job;
using gx::sim::plan::Menu;
using gx::sim::plan::Offer;
using gx::sim::plan::offers;
using gx::sim::plan::on_offer;

Menu menu(std::vector<int> machines) {
    Menu m{.reducers = {on_offer<gx::Ring<gx::fp32>>("fp32", gx::sim::Algorithm::ring),
                        on_offer<gx::DoubleBuffered<gx::Ring<gx::fp16>>>(
                            "fp16", gx::sim::Algorithm::ring)},
           .precision = gx::sim::Precision::fp32};
    for (const int n : machines) m.clusters.push_back(gx::sim::ethernet_10g(n));
    return m;
}
const gx::Graph small = gx::graph<gx::ResNet8>();

// ---- Time and price of a way, against a step timed on its own -------------------------
TEST(Offers, AreStepsTimesTheirCount) {
    const Job job{.model = "ResNet8", .examples = 1000, .epochs = 3, .global_batch = 64};
    const std::vector<Offer> all = offers(job, small, menu({4}));
    ASSERT_EQ(all.size(), 2u);
    const auto step = gx::sim::step_time<gx::Ring<gx::fp32>>(
        small, gx::sim::ethernet_10g(4), {.batch = 16, .worth_simulating = 0});
    EXPECT_EQ(all[0].step, step.step);
    EXPECT_EQ(all[0].steps, 48);  // ceil(1000 / 64) = 16 an epoch
    EXPECT_EQ(all[0].total, step.step * 48);
    EXPECT_DOUBLE_EQ(all[0].on_demand.value().count,
                     gx::seconds(step.step) * 48 / 3600 * 4 * 3.06);
    EXPECT_FALSE(all[0].spot.has_value()) << "no spot price is known for these machines";
    EXPECT_EQ(all[0].way.batch_per_gpu, 16);
    EXPECT_EQ(all[1].way.staleness, 1);
    EXPECT_LT(all[1].total, all[0].total) << "half the bytes, behind the computation";
}

// ---- What cannot run says so, and the rest is still offered ---------------------------
TEST(Offers, SayWhyAWayCannotRun) {
    const auto all = offers({.examples = 10, .epochs = 1, .global_batch = 10}, small, menu({2, 4}));
    EXPECT_EQ(all[0].trouble, "");
    EXPECT_EQ(all[2].trouble, "a batch of 10 is not a multiple of 4 GPUs");
    const auto huge = offers({.examples = 1, .epochs = 1, .batch_per_gpu = 1 << 22}, small,
                             menu({1}));
    EXPECT_NE(huge[0].trouble.find("does not fit"), std::string::npos) << huge[0].trouble;
    EXPECT_NE(huge[0].trouble.find("fits"), std::string::npos);
    const auto ages = offers({.examples = std::int64_t{1} << 62, .epochs = 1 << 30,
                              .batch_per_gpu = 1}, small, menu({1}));
    EXPECT_EQ(ages[0].trouble,
              "takes more than 9e9 s, which the clock does not count: train on less");
}
TEST(Offers, OfMachinesWithoutANicAreOfOneAlone) {
    Menu m = menu({1, 2});
    for (auto& cluster : m.clusters) cluster.machine.nics = 0;
    const auto all = offers({.examples = 10, .epochs = 1, .batch_per_gpu = 1}, small, m);
    EXPECT_EQ(all[0].trouble, "");
    EXPECT_EQ(all[2].trouble,
              "machine '1 x V100': it is not connected: 2 machines need a NIC each");
}
TEST(Offers, HaveNoPriceWhereNoneIsKnown) {
    Menu m = menu({1, 2});
    m.clusters[1].machine.price = {};
    const auto all = offers({.examples = 10, .epochs = 1, .batch_per_gpu = 1}, small, m);
    EXPECT_TRUE(all[0].on_demand.has_value());
    EXPECT_FALSE(all[2].on_demand.has_value());
}

// ---- The page ---------------------------------------------------------------------------
TEST(Page, HoldsEveryWayAndLoadsNothing) {
    const Job job{.model = "<M>", .examples = 1000, .epochs = 1, .batch_per_gpu = 8};
    Menu m = menu({1, 2, 4});
    m.clusters[2].machine.price = {};
    std::vector<Offer> all = offers(job, small, m);
    gx::sim::plan::judge(all, job);
    const std::string html = gx::sim::plan::page(all, job);
    for (const Offer& o : all)
        EXPECT_NE(html.find(gx::chart::escaped(o.way.text())), std::string::npos);
    EXPECT_EQ(html.find("<M>"), std::string::npos) << "names are escaped";
    EXPECT_EQ(html.find("http"), std::string::npos);
    EXPECT_NE(html.find("<circle"), std::string::npos);
    EXPECT_NE(html.find("<td>unknown<td>unknown"), std::string::npos) << "neither price of 4";
    EXPECT_EQ(html.find("nan"), std::string::npos);
}

}  // namespace
