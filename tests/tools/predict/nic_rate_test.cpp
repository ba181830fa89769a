#include <tools/predict/nic_rate.hpp>  // first, so the header is seen to stand alone

#include <string>  // sentences

#include <gtest/gtest.h>

#include <gx/core/error.hpp>  // Error

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
TEST(NicRate, CountsAdaptersBeforeAndBehind) {
    for (const char* text :
         {"1,600 Gb/s", "1600 Gb/s", "200 Gb/s x 8", "200 Gb/s \xc3\x97 8", "8 X 200 Gb/s",
          "8*200 Gb/s", "8 ports of 200 Gb/s", "HDR x8", "8 x HDR", "eight 200 Gb/s adapters",
          "200 GByte/s", "200 GB per second", "200 GB/s", "1,600 Gb per second",
          "8 x HDR (1,600 Gb/s)", "InfiniBand, 8 x 200 Gb/s"})
        EXPECT_EQ(nic_gbps(text), 1600) << text;
    EXPECT_EQ(nic_gbps("HDR100"), 100);
    EXPECT_EQ(nic_gbps("2 x HDR100"), 200);
    EXPECT_EQ(nic_gbps("NDR200"), 200);
    EXPECT_EQ(nic_gbps("NDR 400"), 400);
    EXPECT_EQ(nic_gbps("FDR10"), 40);
    EXPECT_EQ(nic_gbps("dual 100 GbE"), 200);
    EXPECT_EQ(nic_gbps("ConnectX-5 100 GbE"), 100);
    EXPECT_EQ(nic_gbps("25 GB/s (200 Gb/s)"), 200);
    EXPECT_EQ(nic_gbps("10GigE"), 10);
    EXPECT_EQ(nic_gbps("not HDR, EDR"), 100);
}
TEST(NicRate, SeveralRatesAndThoseOfEachAreRefused) {
    for (const std::string text :
         {"100/200 Gb/s", "100-200 Gb/s", "25 to 100 Gb/s", "10 GbE management, 200 Gb/s HDR",
          "1 GbE control, 8 x HDR", "400 Gb/s EFA, 100 Gb/s ENA", "EDR and HDR", "200 Gb/s per GPU",
          "200 Gb/s each, 8 adapters", "25 Gb/s per port, 2 ports",
          "200 Gb/s InfiniBand (8 adapters)", "4 x 100 + 4 x 200 Gb/s", "8 200 Gb/s HCAs",
          "1 600 Gb/s", "2,5 Gb/s", "10 GbE bonded x2", "HDR (8 per node)"})
        try {
            const double gbps = nic_gbps(text);
            FAIL() << text << " was taken for " << gbps;
        } catch (const gx::Error& e) {
            EXPECT_EQ(std::string(e.what()).rfind("'" + text + "' ", 0), 0u) << e.what();
        }
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
