// SummedNorms: the norms of whole parameters on every rank, whoever holds their parts.
#include <gx/trainer/rank/summed_norms.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/optimizer/lars.hpp>
#include <gx/testing/worlds.hpp>

namespace {

using gx::HostQueue;
using gx::Lars;
using gx::detail::trainer::SummedNorms;

RC_GTEST_PROP(SummedNorms, AreThoseOfTheWhole, ()) {
    const int ranks = *rc::gen::inRange(1, 6);
    const auto parameters = *rc::gen::inRange<std::size_t>(1, 4);
    // numbers of (rank, parameter)
    std::vector<std::vector<float>> parts(static_cast<std::size_t>(ranks) * parameters);
    for (auto& part : parts) part = *rc::gen::arbitrary<std::vector<float>>();
    std::vector<gx::SquaredSum> whole(parameters);
    for (std::size_t i = 0; i < parts.size(); ++i) whole[i % parameters].add(parts[i]);
    gx::testing::OnThreads{}({1, ranks}, [&](auto& rank) {
        SummedNorms<Lars> norms(nullptr, parameters, rank.rank(), ranks);
        for (int step = 0; step < 2; ++step) {  // the second begins from zero
            const auto mine = norms.begin(HostQueue{});
            const auto first = static_cast<std::size_t>(rank.rank()) * parameters;
            for (std::size_t p = 0; p < parameters; ++p) {
                mine[p].parameter.add(parts[first + p]);
                mine[p].gradient.add(parts[first + p]);
                mine[p].gradient.add(parts[first + p]);
            }
            EXPECT_TRUE(norms.sum(HostQueue{}, rank.transport()).complete());
            for (std::size_t p = 0; p < parameters; ++p) {
                gx::SquaredSum twice = whole[p];
                twice.add(whole[p]);
                EXPECT_TRUE(norms.sums()[p].parameter == whole[p]);
                EXPECT_TRUE(norms.sums()[p].gradient == twice);
            }
        }
    });
}
TEST(SummedNorms, NameALostRank) {
    gx::testing::OnThreads{}({1, 3}, [&](auto& rank) {
        SummedNorms<Lars> norms(nullptr, 2, rank.rank(), 3);
        if (rank.rank() == 2) return;
        const gx::Delivery d = norms.sum(HostQueue{}, rank.transport());
        EXPECT_FALSE(d.complete());
        EXPECT_EQ(d.peer, 2);
    });
}

}  // namespace
