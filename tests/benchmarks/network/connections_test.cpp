#include "connections.hpp"  // first, so the header is seen to stand alone

#include <vector>

#include <gtest/gtest.h>

#include <gx/halving_doubling/reducer.hpp>  // HalvingDoubling
#include <gx/reducer/multi_ring.hpp>        // MultiRing
#include <gx/reducer/ring.hpp>              // Ring
#include <gx/sim/world/cluster.hpp>         // Cluster

#include <support/files.hpp>  // holds

#include "cluster.hpp"  // cluster_of

namespace {

using namespace gx;
using testing_support::holds;
constexpr std::int64_t elements = 3 << 16;

/// Bytes of the largest message of R that is longer than `eager_bytes`, where they go both ways
/// between two of so many hosts; 0: nowhere.
template <class R>
std::int64_t both_ways(int hosts, std::int64_t eager_bytes) {
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
    EXPECT_EQ(both_ways<Ring<fp32>>(3, 1024), 0);
    EXPECT_EQ((both_ways<MultiRing<2, fp32>>(3, 1024)), 4 * elements / 2 / 3);
    EXPECT_EQ(both_ways<HalvingDoubling<fp32>>(4, 1024), 4 * elements / 2);
    EXPECT_EQ(both_ways<Ring<fp32>>(2, 1024), 4 * elements / 2) << "the neighbours are one";
}
TEST(Connections, MessagesThatNeedNoHandshakeWaitForNone) {
    EXPECT_EQ((both_ways<MultiRing<2, fp32>>(3, 8 << 20)), 0);
    EXPECT_EQ(both_ways<HalvingDoubling<fp32>>(4, 8 << 20), 0);
}
TEST(Connections, TheLimitThatIsAdvisedIsAboveTheLargestMessage) {
    const auto note = [](std::int64_t eager, std::int64_t largest, const char* mpi = "openmpi") {
        return bench::handshake_note({"A of 4 bytes", "B of 8 bytes"}, eager, largest, mpi);
    };
    EXPECT_TRUE(holds(note(65'536, 1 << 20),
                      "too low: A of 4 bytes, B of 8 bytes. Messages of more than --eager 65536 "
                      "bytes, 1048576 at most, go both ways",
                      "--mca btl_tcp_eager_limit 8388608 and give --eager 8388608."));
    EXPECT_TRUE(holds(note(8 << 20, 16 << 20), "btl_tcp_eager_limit 33554432", "--eager 33554432"))
        << "not what was given already";
    EXPECT_TRUE(holds(note(8 << 20, (32 << 20) - 4), "--eager 67108864."))
        << "a message is sent with a header";
    const std::string other = note(65'536, 1 << 20, "mpich");
    EXPECT_TRUE(holds(other, "1048576 at most, go both ways")) << other;
    EXPECT_EQ(other.find("Open MPI"), other.npos) << other;
    EXPECT_EQ(other.find("mca"), other.npos) << other;
}

}  // namespace
