// K machine orders are K flows that go in lockstep groups. Without a channel in a message, the k-th
// send to a peer meets its k-th receive: for every machine order of 1 to 64 ranks and K up to 8,
// both are of the same flow, step and chunk, nothing waits for ever, and as many messages go as the
// formula says. A pure check of the exchanges: neither NCCL nor its double takes part.
#include <gx/collective/ring.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <gx/collective/exchange.hpp>
#include <gx/core/transport.hpp>

namespace {

using namespace gx;
using collective::Ring;

struct Message {
    int flow = 0, step = 0;
    std::int64_t elements = 0;
    bool operator==(const Message&) const = default;
};
/// A rank's group: in the order of its calls.
struct Lockstep {
    std::vector<std::pair<int, Message>> sends{}, receives{};  ///< with peers
};
/// For each rank the groups that execute() makes of K flows over a bucket.
using Groups = std::vector<std::vector<Lockstep>>;

template <class Flow>
Groups groups_of(const std::vector<Flow>& flows, std::int64_t bucket, int ranks) {
    const int count = static_cast<int>(flows.size());
    Groups all(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank)
        for (int step = 0; step < flows[0].steps(); ++step) {
            Lockstep group;
            for (int k = 0; k < count; ++k) {
                const Flow& ring = flows[static_cast<std::size_t>(k)];
                const auto part = chunk_range(bucket, count, k).size();
                const auto now = ring.exchange(rank, step);
                const auto size = [&](int chunk) {
                    return chunk_range(part, ring.chunks(), chunk, now.chunks).size();
                };
                if (now.from >= 0 && size(now.receive_chunk) > 0)
                    group.receives.push_back({now.from, {k, step, size(now.receive_chunk)}});
                if (now.to >= 0 && size(now.send_chunk) > 0)
                    group.sends.push_back({now.to, {k, step, size(now.send_chunk)}});
            }
            if (!group.sends.empty() || !group.receives.empty())
                all[static_cast<std::size_t>(rank)].push_back(std::move(group));
        }
    return all;
}

/// "" where every group ends and each message is received as what it was sent. A rank is at one
/// group at a time, whose messages progress at once.
std::string flaw(const Groups& groups) {
    const int ranks = static_cast<int>(groups.size());
    struct At {
        std::size_t group = 0, open = 0;  ///< messages of the group that have not met
        bool posted = false;
    };
    std::vector<At> at(groups.size());
    struct Half {
        Message message;
        int owner;
    };
    struct Pair {  ///< sends or receives that came first, not both
        std::vector<Half> waiting{};
        std::size_t head = 0;
        bool sends = false;
    };
    std::vector<Pair> pairs(groups.size() * groups.size());
    std::string wrong;
    const auto post = [&](int from, int to, bool sends, const Half& half) {
        Pair& p = pairs[static_cast<std::size_t>(from * ranks + to)];
        if (p.head == p.waiting.size() || p.sends == sends) {
            p.sends = sends;
            p.waiting.push_back(half);
            return;
        }
        const Half& other = p.waiting[p.head++];
        if (!(other.message == half.message))
            wrong = "rank " + std::to_string(from) + " to rank " + std::to_string(to) + ": flow " +
                    std::to_string(other.message.flow) + " meets flow " +
                    std::to_string(half.message.flow);
        --at[static_cast<std::size_t>(other.owner)].open;
        --at[static_cast<std::size_t>(half.owner)].open;
    };
    for (bool moved = true; moved;) {
        moved = false;
        for (int rank = 0; rank < ranks; ++rank) {
            At& mine = at[static_cast<std::size_t>(rank)];
            const auto& all = groups[static_cast<std::size_t>(rank)];
            if (mine.posted && mine.open == 0) mine = {mine.group + 1, 0, false}, moved = true;
            if (mine.posted || mine.group == all.size()) continue;
            const Lockstep& group = all[mine.group];
            mine.posted = moved = true;
            mine.open = group.sends.size() + group.receives.size();
            for (const auto& [peer, m] : group.receives) post(peer, rank, false, {m, rank});
            for (const auto& [peer, m] : group.sends) post(rank, peer, true, {m, rank});
        }
    }
    for (int rank = 0; rank < ranks && wrong.empty(); ++rank)
        if (at[static_cast<std::size_t>(rank)].group !=
            groups[static_cast<std::size_t>(rank)].size())
            wrong = "rank " + std::to_string(rank) + " waits for ever";
    return wrong;
}

std::vector<Ring> machine_rings(Placement p, int count) {
    std::vector<Ring> flows;
    for (int k = 0; k < count; ++k) flows.push_back(collective::machine_ring(p, k));
    return flows;
}
std::int64_t messages(const Groups& groups) {
    std::int64_t sum = 0;
    for (const auto& rank : groups)
        for (const Lockstep& g : rank) sum += static_cast<std::int64_t>(g.sends.size());
    return sum;
}

TEST(Lockstep, EveryMachineOrderOfUpTo64RanksMeetsItself) {
    for (int ranks = 1; ranks <= 64; ++ranks)
        for (int gpus = 1; gpus <= ranks; ++gpus) {
            if (ranks % gpus != 0) continue;
            const Placement p{ranks / gpus, gpus};
            for (int count = 1; count <= 8; ++count) {
                const Groups groups = groups_of(machine_rings(p, count), 64 * 8, ranks);
                ASSERT_EQ(flaw(groups), "")
                    << p.machines << " x " << gpus << ", " << count << " rings";
                ASSERT_GE(64 * 8 / count, ranks) << "no chunk is empty";
                ASSERT_EQ(messages(groups), std::int64_t{2} * (ranks - 1) * ranks * count);
            }
        }
}
TEST(Lockstep, ShortBucketsSendNoEmptyMessages) {
    for (const Placement p : {Placement{4, 2}, {3, 3}, {8, 1}, {2, 4}})
        for (const int count : {1, 2, 4, 8})
            for (const std::int64_t bucket : {0, 1, 5, 17, 63}) {
                const Groups groups = groups_of(machine_rings(p, count), bucket, p.ranks());
                ASSERT_EQ(flaw(groups), "") << count << " rings over " << bucket;
                for (const auto& rank : groups)
                    for (const Lockstep& g : rank)
                        for (const auto& [peer, m] : g.sends) ASSERT_GT(m.elements, 0);
            }
}

// ---- Any order ---------------------------------------------------------------------------------

/// A ring that visits the ranks in an order drawn from a generator.
class ShuffledRing {
public:
    ShuffledRing(int ranks, std::mt19937_64& random)
        : ring_(ranks), order_(static_cast<std::size_t>(ranks)), position_(order_.size()) {
        std::iota(order_.begin(), order_.end(), 0);
        std::shuffle(order_.begin(), order_.end(), random);
        for (std::size_t i = 0; i < order_.size(); ++i)
            position_[static_cast<std::size_t>(order_[i])] = static_cast<int>(i);
    }
    [[nodiscard]] int steps() const { return ring_.steps(); }
    [[nodiscard]] int chunks() const { return ring_.chunks(); }
    [[nodiscard]] auto exchange(int rank, int step) const {
        auto now = ring_.exchange(position_[static_cast<std::size_t>(rank)], step);
        if (now.to >= 0) now.to = order_[static_cast<std::size_t>(now.to)];
        if (now.from >= 0) now.from = order_[static_cast<std::size_t>(now.from)];
        return now;
    }

private:
    Ring ring_;
    std::vector<int> order_, position_;
};

/// GX_RANDOM_ORDERS=100000: as many sets of orders, which takes minutes.
int random_orders() {
    const char* const text = std::getenv("GX_RANDOM_ORDERS");
    return text == nullptr ? 200 : std::atoi(text);
}
TEST(Lockstep, RandomOrdersOfUpTo64RanksMeetThemselves) {
    std::int64_t sent = 0;
    for (int seed = 0; seed < random_orders(); ++seed) {
        std::mt19937_64 random(static_cast<std::uint64_t>(seed));
        const int ranks = 1 + static_cast<int>(random() % 64);
        const auto count = 1 + random() % 8;
        const auto bucket = static_cast<std::int64_t>(random() % 1024);
        std::vector<ShuffledRing> flows;
        while (flows.size() < count) flows.emplace_back(ranks, random);
        const Groups groups = groups_of(flows, bucket, ranks);
        ASSERT_EQ(flaw(groups), "") << "seed " << seed << ": " << ranks << " ranks";
        sent += messages(groups);
    }
    std::printf("%d random orders, %lld messages\n", random_orders(), static_cast<long long>(sent));
}

// ---- The check rejects ------------------------------------------------------------------------

TEST(Lockstep, FlowsInAnotherOrderOnOneRankAreFound) {
    Groups groups = groups_of(machine_rings({2, 2}, 2), 40, 4);
    for (Lockstep& g : groups[1]) std::swap(g.sends.front(), g.sends.back());
    Groups same = groups_of(machine_rings({1, 4}, 2), 40, 4);  // two rings with the same peers
    for (Lockstep& g : same[1]) std::swap(g.sends.front(), g.sends.back());
    EXPECT_NE(flaw(groups) + flaw(same), "");
}
TEST(Lockstep, AStepThatIsCutIntoTwoGroupsIsFound) {
    Groups groups = groups_of(machine_rings({3, 1}, 1), 30, 3);
    for (auto& rank : groups) {  // the send alone, then the receive alone: nobody receives
        std::vector<Lockstep> cut;
        for (const Lockstep& g : rank) {
            cut.push_back({g.sends, {}});
            cut.push_back({{}, g.receives});
        }
        rank = cut;
    }
    EXPECT_EQ(flaw(groups), "rank 0 waits for ever");
}
TEST(Lockstep, AMessageThatIsLeftOutIsFound) {
    Groups groups = groups_of(machine_rings({3, 1}, 2), 30, 3);
    groups[2][1].sends.pop_back();
    EXPECT_NE(flaw(groups), "");
}

}  // namespace
