#include <tools/predict/transport.hpp>  // first, so the header is seen to stand alone

#include <string>  // texts

#include <gtest/gtest.h>

#include <tools/common/text.hpp>  // denies, has_word, states

namespace {

using gx::tools::denies;
using gx::tools::has_word;
using gx::tools::states;

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
TEST(Transport, WhatIsDeniedIsNotThere) {
    EXPECT_FALSE(is_rdma("ethernet, no rdma", 100));
    EXPECT_TRUE(is_rdma("rdma, not tcp", 10));
    EXPECT_FALSE(is_rdma("ena (no efa)", 100));
    EXPECT_FALSE(is_rdma("infiniband without rdma", 100));
    EXPECT_TRUE(is_rdma("infiniband, no gpudirect rdma", 100));
    EXPECT_FALSE(is_rdma("no rdma", 100));
    EXPECT_FALSE(is_omni_path("infiniband, not omni-path"));
}
TEST(Transport, ATextStatesWhatItDoesNotDeny) {
    using gx::tools::Word;
    for (const char* text : {"nvlink", "pcie, nvlink", "no pcie, nvlink", "not stated; nvlink",
                             "nvlink, not pcie", "not only nvlink", "nvlink 2 (offload)"})
        EXPECT_TRUE(states(text, "nvlink")) << text;
    for (const char* text :
         {"no nvlink", "pcie (no nvlink)", "without an nvlink", "pcie instead of nvlink",
          "pcie rather than nvlink", "pcie vs nvlink", "nvlink off", "nvlink disabled",
          "nvlink is not used", "nvlink (disabled)", "nvlink=0", "non-nvlink", "unlike nvlink"}) {
        EXPECT_FALSE(states(text, "nvlink")) << text;
        EXPECT_TRUE(denies(text, "nvlink")) << text;
    }
    EXPECT_FALSE(states("", "nvlink") || denies("", "nvlink"));
    EXPECT_FALSE(states("example", "amp", Word::apart));
    for (const std::string text : {"", "tcp", "no rdma", "a vs b", "rdma off", "(no", "x,"})
        for (const char* word : {"rdma", "tcp", "a", "nothing else"})
            for (const char* but : {", not ", ", no "})
                EXPECT_EQ(states(text + but + word, word), states(text, word)) << text + but + word;
}
TEST(Transport, AWordStandsApart) {
    EXPECT_TRUE(has_word("over ib, fdr", "ib"));
    EXPECT_FALSE(has_word("distributed", "ib"));
    EXPECT_FALSE(has_word("", "ib"));
    EXPECT_TRUE(is_omni_path("opa 100") && is_omni_path("omni-path"));
    EXPECT_FALSE(is_omni_path("topaz"));
}

}  // namespace
