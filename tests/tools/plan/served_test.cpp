#include <tools/plan/served.hpp>

#include <algorithm>  // max
#include <cmath>      // abs
#include <vector>     // rows

#include <gtest/gtest.h>

#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/sim/world/cluster.hpp>            // Cluster

namespace {

using gx::Nanoseconds;
using gx::sim::ClusterSpec;
using gx::sim::StepWork;

constexpr std::int64_t elements = 1 << 20;

/// A gradient that is there at once.
StepWork gradient() { return {.elements = elements, .ready = {{Nanoseconds(0), 0}}}; }

/// Virtual time of R's reduction of a gradient in buckets, one after the other, with data.
template <class R>
Nanoseconds reduced(const ClusterSpec& spec, std::int64_t bucket, std::int64_t count = elements) {
    gx::sim::Cluster<> world(spec);
    world.run([&](auto& rank) {
        std::vector<float> row(static_cast<std::size_t>(count),
                               static_cast<float>(rank.rank() + 1));
        R reducer;
        reducer.reserve(gx::ReducePlan::whole(spec.placement(), bucket));
        for (std::int64_t end = count; end > 0; end -= bucket) {
            const auto begin = static_cast<std::size_t>(std::max<std::int64_t>(0, end - bucket));
            const gx::Bucket whole(row);
            const gx::Bucket part = whole.part(begin, static_cast<std::size_t>(end) - begin);
            EXPECT_TRUE(reducer.all_reduce(rank.transport(), part).complete());
        }
    });
    return world.elapsed();
}
double apart_pct(Nanoseconds a, Nanoseconds b) {
    return 100 * std::abs(gx::seconds(a) / gx::seconds(b) - 1);
}
template <class R>
void expect_the_time_of(const ClusterSpec& spec, std::int64_t bucket) {
    const auto choice = gx::tools::plan::served_choice<R>("");
    const gx::Bytes bytes{bucket * std::int64_t{sizeof(typename R::wire_type::storage)}};
    const auto planned = choice.time(gradient(), spec, bytes);
    const Nanoseconds real = reduced<R>(spec, bucket);
    EXPECT_LT(apart_pct(planned.step, real), 0.1)
        << R::name() << " of " << bucket << " on " << spec.ranks()
        << " ranks: " << gx::seconds(planned.step) << " for " << gx::seconds(real);
}

// ---- A step that only communicates, against the reducer itself ------------------------------
TEST(Served, TakesTheTimeOfTheReducer) {
    for (const int n : {1, 2, 3, 4, 8}) {
        const ClusterSpec spec = gx::sim::ethernet_10g(n);
        expect_the_time_of<gx::ParameterServer<gx::fp32>>(spec, elements);
        expect_the_time_of<gx::ParameterServer<gx::fp16>>(spec, elements);
        expect_the_time_of<gx::SharedMemory<gx::fp32>>(spec, elements);
        expect_the_time_of<gx::ParameterServer<gx::fp32>>(spec, elements / 3);  // and a rest of 1
        expect_the_time_of<gx::SharedMemory<gx::fp16>>(spec, elements / 4);
    }
}

TEST(Served, TakesItOnMachinesOfSeveralGpus) {
    const ClusterSpec spec = gx::sim::plain_p3_16xlarge(2);
    for (const std::int64_t count : {std::int64_t{5}, elements}) {  // fewer than ranks, too
        const auto mean = gx::sim::rank_order_time(spec, count, 4);
        EXPECT_EQ(mean.time, reduced<gx::ParameterServer<gx::fp32>>(spec, count, count)) << count;
    }
    const auto mean = gx::sim::rank_order_time(spec, elements, 4);
    EXPECT_EQ(mean.messages, 2u * 16 * 15);
    EXPECT_EQ(mean.wire.count, 2 * 16 * 8 * (elements / 16) * 4);
}

// ---- Buckets begin when they are whole, and follow each other ---------------------------------
TEST(Served, BucketsHideBehindTheBackwardPass) {
    using R = gx::ParameterServer<gx::fp32>;
    const ClusterSpec spec = gx::sim::ethernet_10g(4);
    const gx::Bytes half{2 * elements};
    const Nanoseconds one = gx::sim::rank_order_time(spec, elements / 2, 4).time;
    StepWork work{.forward = one, .backward = 3 * one, .update = one, .elements = elements};
    work.ready = {{one, elements / 2}, {3 * one, 0}};
    const auto t = gx::tools::plan::served_time<R>(work, spec, half);
    EXPECT_EQ(t.communication, 2 * one);
    EXPECT_EQ(t.exposed, one) << "the first bucket is hidden";
    EXPECT_EQ(t.step, 6 * one);
    work.ready = {{3 * one, 0}};
    EXPECT_EQ(gx::tools::plan::served_time<R>(work, spec, half).exposed, 2 * one);
}

}  // namespace
