#include <tools/predict/nic_rate.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

namespace {

using gx::tools::predict::machine_gbps;
using gx::tools::predict::nic_gbps;

// ---- Cases worked by hand -----------------------------------------------------------
TEST(NicRate, ReadsWhatPeopleWrite) {
    EXPECT_EQ(nic_gbps("25 GbE"), 25);
    EXPECT_EQ(nic_gbps("100Gb/s"), 100);
    EXPECT_EQ(nic_gbps("10-Gigabit Ethernet"), 10);
    EXPECT_EQ(nic_gbps("ConnectX-4 50 GbE"), 50);
    EXPECT_EQ(nic_gbps("InfiniBand FDR (56 Gb/s)"), 56);
    EXPECT_EQ(nic_gbps("HDR"), 200);
    EXPECT_EQ(nic_gbps("2x EDR"), 200);
    EXPECT_EQ(nic_gbps("4 \xc3\x97 100 Gb/s InfiniBand"), 400);
    EXPECT_EQ(nic_gbps("8 x InfiniBand HDR 200 Gb/s"), 1600);
    EXPECT_EQ(nic_gbps("V100 (p3.16xlarge)"), 25);
    EXPECT_EQ(nic_gbps("gRPC over Cray Aries"), 82);
    EXPECT_EQ(nic_gbps("RoCE 200G"), 200);
    EXPECT_EQ(nic_gbps("1.6 Tb/s"), 1600);
    EXPECT_EQ(nic_gbps("12.5 GB/s"), 100);
    EXPECT_EQ(nic_gbps("4 x HDR"), 800);
}
TEST(NicRate, AMachinesMemoryIsNoNetwork) {
    for (const char* text : {"V100-SXM2-16GB", "v100 16gb", "A100-SXM4-80GB", "8 x T4 16 GB"})
        EXPECT_EQ(machine_gbps(text), 0) << text;
    EXPECT_EQ(machine_gbps("4 nodes of 8 V100 16GB, 25 GbE"), 25);
    EXPECT_EQ(machine_gbps("V100-SXM2-32GB (p3dn.24xlarge)"), 100);
    EXPECT_EQ(machine_gbps("Standard_ND96isr_H100_v5"), 3200);
}
TEST(NicRate, SaysNothingWhereNothingIsSaid) {
    for (const char* text : {"", "not stated", "TCP", "InfiniBand RDMA", "8 x", "V100-SXM2", "4",
                             "0 x 100 Gb/s", "65 x HDR", "0 x p3.16xlarge"})
        EXPECT_EQ(nic_gbps(text), 0) << text;
}

}  // namespace
