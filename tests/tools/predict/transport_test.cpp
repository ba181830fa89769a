#include <tools/predict/transport.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

#include <tools/common/text.hpp>  // has_word

namespace {

using gx::tools::has_word;

using namespace gx::tools::predict;

// ---- Cases worked by hand -----------------------------------------------------------
TEST(Transport, NetworksWithRdma) {
    for (const char* text : {"infiniband rdma", "ib", "ib verbs", "edr", "hdr 200 gb/s", "roce v2",
                             "rdma over converged ethernet", "aws efa", "opa", "omni-path",
                             "slingshot", "grpc over cray aries", "connectx-5, 100 gbe"})
        EXPECT_TRUE(is_rdma(text, 10)) << text;
}
TEST(Transport, NetworksThroughTheKernel) {
    for (const char* text : {"tcp", "tcp/ip", "tcp over infiniband", "ipoib", "25 gbe", "ena",
                             "ethernet", "grpc", "gloo", "gpudirect-tcpx", "socket"})
        EXPECT_FALSE(is_rdma(text, 400)) << text;
}
TEST(Transport, WhereNothingIsSaidTheRateTells) {
    for (const char* text : {"", "not stated", "unknown", "mpi", "nvlink only"}) {
        EXPECT_TRUE(is_rdma(text, 100)) << text;
        EXPECT_FALSE(is_rdma(text, 25)) << text;
    }
}
TEST(Transport, AWordStandsApart) {
    EXPECT_TRUE(has_word("over ib, fdr", "ib"));
    EXPECT_FALSE(has_word("distributed", "ib"));
    EXPECT_FALSE(has_word("", "ib"));
    EXPECT_TRUE(is_omni_path("opa 100") && is_omni_path("omni-path"));
    EXPECT_FALSE(is_omni_path("topaz"));
}

}  // namespace
