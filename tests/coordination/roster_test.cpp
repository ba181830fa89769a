#include <gx/coordination/roster.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::Placement;
using gx::coordination::MemberInfo;
using gx::coordination::Roster;

Roster on(const std::vector<std::string>& hosts) {
    std::vector<MemberInfo> members;
    for (const std::string& host : hosts) members.push_back({.host = host});
    return Roster(members);
}

TEST(Roster, EquallyManyRanksAHostInOrderAreRegular) {
    const Roster r = on({"b", "b", "a", "a"});
    EXPECT_EQ(r.placement(), (Placement{2, 2}));
    EXPECT_EQ(r.node_of(1), 0) << "nodes count by their lowest ranks, not by name";
    EXPECT_EQ(r.node_of(2), 1);
    EXPECT_EQ(r.local_rank(3), 1);
    EXPECT_EQ(on({"x"}).placement(), (Placement{1, 1}));
    EXPECT_EQ(on({"x", "y", "z"}).placement(), (Placement{3, 1}));
}
TEST(Roster, UnequalNumbersAreRagged) {
    const Roster r = on({"a", "a", "a", "b"});
    const Placement p = r.placement();
    EXPECT_FALSE(p.regular());
    EXPECT_EQ(p.machines, 2);
    EXPECT_EQ(p.ranks(), 4);
    EXPECT_EQ(p.node_of(2), 0);
    EXPECT_EQ(p.local_rank(2), 2);
    EXPECT_EQ(p.node_of(3), 1);
    EXPECT_EQ(p.local_rank(3), 0);
    EXPECT_EQ(p, r.placement()) << "copies of one roster have one placement";
}
TEST(Roster, RoundRobinIsRagged) {
    const Placement p = on({"a", "b", "a", "b"}).placement();
    EXPECT_FALSE(p.regular());
}
TEST(Roster, ACopyKeepsThePlacementAlive) {
    Roster copy;
    {
        const Roster r = on({"a", "b", "b"});
        copy = r;
    }
    EXPECT_EQ(copy.placement().node_of(2), 1);
}
TEST(Roster, LocalRanksOfALauncherAreKept) {
    const Roster r({{"a", 1, 3}, {"a", 2, 1}, {"b", 3, -1}});
    EXPECT_EQ(r.local_rank(0), 3);
    EXPECT_EQ(r.local_rank(1), 1);
    EXPECT_EQ(r.local_rank(2), 0);
}
TEST(Roster, SomeOfItsRanksKeepTheirHosts) {
    const Roster r({{"a", 1, 3}, {"a", 2, 1}, {"b", 3, -1}});
    const Roster some = r.of({1, 2});
    EXPECT_EQ(some.placement(), (Placement{2, 1}));
    EXPECT_EQ(some.at(1).process, 3u);
    EXPECT_EQ(some.local_rank(0), 1);
    EXPECT_EQ(r.of({}).ranks(), 0);
}
TEST(Roster, APlacementSaysWhatTheHostsSay) {
    EXPECT_TRUE(rc::check([] {
        const auto hosts = *rc::gen::nonEmpty(rc::gen::container<std::vector<std::string>>(
            rc::gen::element<std::string>("a", "b", "c")));
        const Roster r = on(hosts);
        const Placement p = r.placement();
        RC_ASSERT(p.ranks() == int(hosts.size()));
        for (int i = 0; i < p.ranks(); ++i) {
            int lower = 0;
            for (int j = 0; j < p.ranks(); ++j) {
                const bool same = hosts[std::size_t(i)] == hosts[std::size_t(j)];
                RC_ASSERT((p.node_of(i) == p.node_of(j)) == same);
                lower += same && j < i;
            }
            RC_ASSERT(p.local_rank(i) == lower);
            RC_ASSERT(p.node_of(i) < p.machines);
        }
    }));
}

}  // namespace
