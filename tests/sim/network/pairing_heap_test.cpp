#include <gx/sim/network/pairing_heap.hpp>  // first, so the header is seen to stand alone

#include <algorithm>  // is_sorted, sort
#include <vector>     // nodes

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::sim::HeapLinks;
using gx::sim::PairingHeap;

struct Nodes {
    std::vector<int>* keys;
    std::vector<HeapLinks>* all;
    HeapLinks& links(int i) { return (*all)[static_cast<std::size_t>(i)]; }
    bool before(int a, int b) {
        return (*keys)[static_cast<std::size_t>(a)] < (*keys)[static_cast<std::size_t>(b)];
    }
};
struct Bench {
    std::vector<int> keys;
    std::vector<HeapLinks> all = std::vector<HeapLinks>(keys.size());
    PairingHeap<Nodes> heap{Nodes{&keys, &all}};
    explicit Bench(std::vector<int> k) : keys(std::move(k)) {}

    std::vector<int> empty(int root) {  // its keys as they come out
        std::vector<int> out;
        while (root >= 0) {
            out.push_back(keys[static_cast<std::size_t>(root)]);
            const int next = heap.pop(root);
            const HeapLinks& links = all[static_cast<std::size_t>(root)];
            EXPECT_TRUE(links.child == -1 && links.sibling == -1) << "its links are fresh";
            root = next;
        }
        return out;
    }
};

// ---- A case worked by hand -----------------------------------------------------------
TEST(PairingHeap, GivesTheLeastOfTwoHeaps) {
    Bench b({5, 2, 7, 3});
    const int left = b.heap.meld(0, 1), right = b.heap.meld(2, 3);
    EXPECT_EQ(left, 1);
    EXPECT_EQ(right, 3);
    EXPECT_EQ(b.heap.meld(left, -1), 1) << "with the empty heap";
    EXPECT_EQ(b.heap.meld(-1, right), 3);
    EXPECT_EQ(b.empty(b.heap.meld(left, right)), (std::vector<int>{2, 3, 5, 7}));
}

// ---- A property ------------------------------------------------------------------------
RC_GTEST_PROP(PairingHeap, EmptiesInOrderWhateverWentInBetween, (std::vector<int> keys)) {
    Bench b(keys);
    std::vector<int> in, out;  // what is in it
    int root = -1;
    for (int i = 0; i < static_cast<int>(keys.size()); ++i) {
        root = b.heap.meld(root, i);
        in.push_back(keys[static_cast<std::size_t>(i)]);
        if (*rc::gen::inRange(0, 4) != 0) continue;
        const auto least = std::min_element(in.begin(), in.end());
        RC_ASSERT(keys[static_cast<std::size_t>(root)] == *least);
        in.erase(least);
        root = b.heap.pop(root);
    }
    std::sort(in.begin(), in.end());
    RC_ASSERT(b.empty(root) == in);
}

}  // namespace
