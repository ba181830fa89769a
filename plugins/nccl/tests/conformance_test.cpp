// The conformance kit on nccl::World, over the doubles: all reducers of gx and of its plugins.
#include <cstdio>

#include <gtest/gtest.h>

#include <gx/testing/conformance.hpp>

#include <support/all_reducers.hpp>  // DeviceReducers

#include "reducers.hpp"  // this plugin's own

#include "on_nccl.hpp"

namespace {

using namespace gx;
using namespace gx::testing;
using nccl_tests::checks_all;
using nccl_tests::OnGpu;
using nccl_tests::OnNccl;

void expect_conformance(const ConformanceReport& report, const std::string& name) {
    std::printf("%s: %s\n", name.c_str(), report.summary().c_str());
    EXPECT_TRUE(report.empty()) << report.text();
    EXPECT_TRUE(report.skipped.empty());
}

template <class R>
class ReducersOverNccl : public ::testing::Test {};
TYPED_TEST_SUITE(ReducersOverNccl, testing_support::DeviceReducers::as<::testing::Types>);

TYPED_TEST(ReducersOverNccl, EndsWithTheBitsOfThreads) {
    ConformanceReport report;
    check_worlds<OnGpu<TypeParam>>(OnThreads{}, OnNccl{}, 1, report);
    check_lost_rank<OnGpu<TypeParam>>(OnNccl{}, 1, report);
    expect_conformance(report, reducer_name<TypeParam>());
    EXPECT_GT(report.values, 1000);
}
/// Every check, at 1 to 20 ranks.
TYPED_TEST(ReducersOverNccl, Conforms) {
    if (!std::same_as<TypeParam, MultiRing<2, fp16>> &&
        !std::same_as<TypeParam, ParameterServer<>> && !checks_all())
        GTEST_SKIP() << "set GX_NCCL_CONFORMANCE=all";
    const ConformanceReport report = check<OnGpu<TypeParam>>(OnNccl{});
    expect_conformance(report, reducer_name<TypeParam>());
    EXPECT_GT(report.messages, 100);
}

/// NCCL's own sum has an order of its own: its means are within the bound, equal on all ranks, and
/// a lost rank is named.
TEST(AllReduceOverNccl, IsWithinItsBound) {
    ReducersUnderTest::for_each([]<class R>() {
        ConformanceReport report;
        check_means<OnGpu<R>>(OnNccl{}, 1, report);
        check_lost_rank<OnGpu<R>>(OnNccl{}, 1, report);
        expect_conformance(report, reducer_name<R>());
    });
}

}  // namespace
