#include <gx/sim/catalog/comm_stacks.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

namespace {

using gx::Nanoseconds;
using gx::sim::Algorithm;
using gx::sim::LinkClass;
using gx::sim::Protocol;
using namespace gx::literals;

// ---- What the data promise ----------------------------------------------------------
static_assert(gx::sim::exact.latency(LinkClass::net, Algorithm::ring, Protocol::simple) ==
              Nanoseconds(0));
static_assert(gx::sim::exact.flow_cap().count == 0);
static_assert(gx::sim::tcp_aws.flow_cap() == 80_Gbps, "16 connections of 5 Gb/s");

TEST(Profiles, EachHasANameOfItsOwnAndASource) {
    for (const auto* p : gx::sim::profiles) {
        EXPECT_FALSE(p->source.empty()) << p->name.view();
        EXPECT_EQ(gx::sim::find_profile(p->name).name, p->name);
        EXPECT_GT(p->transport.goodput, 0);
        EXPECT_LE(p->transport.goodput, 1);
    }
}

// ---- A case worked by hand ----------------------------------------------------------
TEST(Profiles, ALibraryOnANetworkPaysBothButNotTwice) {
    const auto latency = [](std::string_view name, LinkClass link) {
        return gx::sim::find_profile(name).latency(link, Algorithm::ring, Protocol::simple);
    };
    EXPECT_EQ(latency("nccl-2.10", LinkClass::net), Nanoseconds(9'600));
    EXPECT_EQ(latency("nccl-2.10+ib-edr", LinkClass::net), Nanoseconds(9'600)) << "fitted on it";
    EXPECT_EQ(latency("nccl-2.10+tcp-aws", LinkClass::net), Nanoseconds(9'600 + 25'000 - 2'800));
    EXPECT_EQ(latency("nccl-2.10+tcp-aws", LinkClass::nvlink), Nanoseconds(3'400));
    EXPECT_EQ(latency("tcp-aws", LinkClass::net), Nanoseconds(25'000));
    EXPECT_EQ(gx::sim::find_profile("nccl-2.5+tcp-10g").name.view(), "nccl-2.5+tcp-10g");
}

// ---- Bad input ----------------------------------------------------------------------
TEST(Profiles, AnUnknownNameIsAnsweredWithTheNearest) {
    try {
        (void)gx::sim::find_profile("nccl-2.5+tcp-asw");
        FAIL() << "an unknown profile was found";
    } catch (const gx::Error& e) {
        EXPECT_STREQ(e.what(), "unknown profile 'tcp-asw': did you mean 'tcp-aws'?");
    }
}

}  // namespace
