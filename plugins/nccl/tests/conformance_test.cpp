// The conformance kit on nccl::World, over the doubles: all reducers of gx and of its plugins.
#include <cstdio>

#include <gtest/gtest.h>

#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/testing/conformance.hpp>
#include <gx/testing/reducer_list.hpp>

// The list of each plugin under a name of its own.
#define ReducersUnderTest HalvingDoublingReducers
#include "../../halving_doubling/tests/reducers.hpp"
#undef ReducersUnderTest
#define ReducersUnderTest HierarchicalReducers
#include "../../hierarchical/tests/reducers.hpp"
#undef ReducersUnderTest
#define ReducersUnderTest LocalSgdReducers
#include "../../local_sgd/tests/reducers.hpp"
#undef ReducersUnderTest
#define ReducersUnderTest ParameterServerReducers
#include "../../parameter_server/tests/reducers.hpp"
#undef ReducersUnderTest
#define ReducersUnderTest QuantizedReducers
#include "../../quantized/tests/reducers.hpp"
#undef ReducersUnderTest
#define ReducersUnderTest ShardedReducers
#include "../../sharded/tests/reducers.hpp"
#undef ReducersUnderTest
#define ReducersUnderTest SharedMemoryReducers
#include "../../shared_memory/tests/reducers.hpp"
#undef ReducersUnderTest
#define ReducersUnderTest TopKReducers
#include "../../top_k/tests/reducers.hpp"
#undef ReducersUnderTest
#define ReducersUnderTest TreesReducers
#include "../../trees/tests/reducers.hpp"
#undef ReducersUnderTest
#include "reducers.hpp"  // this plugin's own

#include "on_nccl.hpp"

namespace {

using namespace gx;
using namespace gx::testing;
using nccl_tests::checks_all;
using nccl_tests::OnGpu;
using nccl_tests::OnNccl;

using CoreReducers =
    ReducerList<Ring<fp32>, Ring<fp16>, Ring<bf16>, MultiRing<2, fp16>, MultiRing<4, fp16>,
                Bucketed<Ring<fp16>, 64>, DoubleBuffered<MultiRing<2, fp16>>,
                DoubleBuffered<DoubleBuffered<Bucketed<Ring<fp32>, 256>>>>;

template <class... Lists>
struct Joined;
template <class... R>
struct Joined<ReducerList<R...>> {
    using types = ::testing::Types<R...>;
};
template <class... A, class... B, class... Rest>
struct Joined<ReducerList<A...>, ReducerList<B...>, Rest...>
    : Joined<ReducerList<A..., B...>, Rest...> {};
using All = Joined<CoreReducers, HalvingDoublingReducers, HierarchicalReducers, LocalSgdReducers,
                   ParameterServerReducers, QuantizedReducers, ShardedReducers,
                   SharedMemoryReducers, TopKReducers, TreesReducers>::types;

void expect_conformance(const ConformanceReport& report, const std::string& name) {
    std::printf("%s: %s\n", name.c_str(), report.summary().c_str());
    EXPECT_TRUE(report.empty()) << report.text();
    EXPECT_TRUE(report.skipped.empty());
}

template <class R>
class OverNccl : public ::testing::Test {};
TYPED_TEST_SUITE(OverNccl, All);

TYPED_TEST(OverNccl, EndsWithTheBitsOfThreads) {
    ConformanceReport report;
    check_worlds<OnGpu<TypeParam>>(OnThreads{}, OnNccl{}, 1, report);
    check_lost_rank<OnGpu<TypeParam>>(OnNccl{}, 1, report);
    expect_conformance(report, reducer_name<TypeParam>());
    EXPECT_GT(report.values, 1000);
}
/// Every check, at 1 to 20 ranks.
TYPED_TEST(OverNccl, Conforms) {
    if (!std::same_as<TypeParam, MultiRing<2, fp16>> && !checks_all())
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
