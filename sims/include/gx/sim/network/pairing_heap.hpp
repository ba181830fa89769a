// PairingHeap: intrusive pairing heap over nodes that the caller owns, linked by index.
#pragma once

namespace gx::sim {

/// Links of a node in its heap; -1 is no node.
struct HeapLinks {
    int child = -1, sibling = -1;
};

/// Intrusive heaps of nodes in the caller's list, each identified by the index of its least node;
/// -1 is the empty heap. A node is in one heap at most.
///
///     Nodes::links(i)       the HeapLinks& of node i
///     Nodes::before(a, b)   whether node a has to come out before node b
///
/// Order:  nodes neither of which comes before the other come out in any order.
/// Cost:   meld O(1), pop O(log n) amortised; nothing is allocated, nothing recurses.
/// Source: Fredman, Sedgewick, Sleator and Tarjan 1986, doi:10.1007/BF01840439.
template <class Nodes>
class PairingHeap {
public:
    explicit PairingHeap(Nodes nodes) : nodes_(nodes) {}

    /// Merges two heaps; a node on its own, with fresh links, is a heap too.
    int meld(int a, int b) {
        if (a < 0) return b;
        if (b < 0) return a;
        if (nodes_.before(b, a)) return adopt(b, a);
        return adopt(a, b);
    }
    /// Removes the least node, whose links are fresh again, and returns the rest.
    int pop(int root) {
        int pairs = -1;  // the last first
        for (int next = take(nodes_.links(root).child); next >= 0;) {
            const int a = next, b = take(nodes_.links(a).sibling);
            next = b < 0 ? -1 : take(nodes_.links(b).sibling);
            const int pair = meld(a, b);
            nodes_.links(pair).sibling = pairs;
            pairs = pair;
        }
        int heap = -1;
        while (pairs >= 0) {
            const int pair = pairs;
            pairs = take(nodes_.links(pair).sibling);
            heap = meld(heap, pair);
        }
        return heap;
    }

private:
    static int take(int& link) {
        const int node = link;
        link = -1;
        return node;
    }
    int adopt(int parent, int child) {
        nodes_.links(child).sibling = nodes_.links(parent).child;
        nodes_.links(parent).child = child;
        return parent;
    }

    Nodes nodes_;
};

}  // namespace gx::sim
