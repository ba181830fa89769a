// Seeded bugs around reducers on nccl::World: each is rejected by its check, as on threads.
#include <set>
#include <string>

#include <gtest/gtest.h>

#include <testing/seeded_bugs.hpp>

#include "on_nccl.hpp"

namespace {

using namespace testing_support;
using gx::nccl_tests::OnNccl;

struct OnGpus {
    template <class R>
    using of = gx::nccl_tests::OnGpu<R>;
};

class Mutants : public ::testing::TestWithParam<SeededBug> {};
TEST_P(Mutants, IsRejectedByItsCheck) {
    static const std::set<std::string> few{"IgnorePeers",      "DropLastChunk", "DriftOneRank",
                                           "MisreportTraffic", "HideOverflow",  "KeepResidue",
                                           "StaleByTwo",       "HideState",     "ClaimComplete"};
    if (!few.contains(GetParam().name) && !gx::nccl_tests::checks_all())
        GTEST_SKIP() << "set GX_NCCL_CONFORMANCE=all";
    gx::testing::ConformanceReport report;
    GetParam().run(GetParam(), report);
    EXPECT_TRUE(report.rejected_by(GetParam().check))
        << GetParam().check << " missed it; other checks found:\n"
        << report.text();
}
INSTANTIATE_TEST_SUITE_P(OnNccl, Mutants, ::testing::ValuesIn(mutants_on<OnGpus>(OnNccl{})),
                         name_of_mutant);

}  // namespace
