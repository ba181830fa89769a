#include "connections.hpp"  // first, so the header is seen to stand alone

#include <vector>

#include <gtest/gtest.h>

#include <gx/halving_doubling/reducer.hpp>  // HalvingDoubling
#include <gx/reducer/multi_ring.hpp>        // MultiRing
#include <gx/reducer/ring.hpp>              // Ring
#include <gx/sim/world/cluster.hpp>         // Cluster

#include "cluster.hpp"  // cluster_of

namespace {

using namespace gx;

/// Whether messages of R that are longer than `eager_bytes` go both ways between two of so many
/// hosts.
template <class R>
bool both_ways(int hosts, std::int64_t eager_bytes) {
    constexpr std::int64_t elements = 3 << 16;
    bench::Handshakes handshakes;
    sim::Cluster<> cluster(bench::cluster_of({.fabric = "made",
                                              .hosts = hosts,
                                              .latency_s = 1e-5,
                                              .pair_bytes_per_s = 1e8,
                                              .host_bytes_per_s = 1e8},
                                             "V100-SXM2-16GB"));
    cluster.run([&](auto& rank) {
        std::vector<float> values(elements, 1.0f);
        R reducer;
        reducer.reserve(ReducePlan::whole(rank.transport().placement(), elements));
        bench::Connections link(rank.transport(), eager_bytes, handshakes);
        EXPECT_TRUE(reducer.all_reduce(link, Bucket(values)).complete());
        link.drain();
        EXPECT_EQ(values, std::vector<float>(elements, 1.0f));
    });
    return handshakes.both_ways();
}

TEST(Connections, RingsSendBothWaysWhereThereAreTwo) {
    EXPECT_FALSE(both_ways<Ring<fp32>>(3, 1024));
    EXPECT_TRUE((both_ways<MultiRing<2, fp32>>(3, 1024)));
    EXPECT_TRUE(both_ways<HalvingDoubling<fp32>>(4, 1024));
    EXPECT_TRUE(both_ways<Ring<fp32>>(2, 1024)) << "the neighbours are one";
}
TEST(Connections, MessagesThatNeedNoHandshakeWaitForNone) {
    EXPECT_FALSE((both_ways<MultiRing<2, fp32>>(3, 8 << 20)));
    EXPECT_FALSE(both_ways<HalvingDoubling<fp32>>(4, 8 << 20));
}

}  // namespace
