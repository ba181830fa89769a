// fusion: batch normalisation fused with the add and the ReLU that follow it.
#pragma once

#include <gx/core/cold.hpp>             // GX_COLD
#include <gx/core/trivial_vector.hpp>   // lists
#include <gx/model/graph.hpp>           // Graph, Op
#include <gx/onednn/detail/norm.hpp>    // Norm
#include <gx/onednn/detail/shapes.hpp>  // Shapes, at

namespace gx::onednn::detail {

/// The operations from a batch norm to the last one that it is fused with.
struct NormGroup {
    int begin = 0, end = 0;  ///< operations
    int residual = -1;       ///< the tensor that is added, -1: none
};

/// Groups of a batch norm with an add and a ReLU whose inputs no other operation reads; one Norm
/// for each. `blame` of an operation is the first of its group if it is the last, else itself: the
/// operation to name when the output is not finite.
class Fusion {
public:
    GX_COLD Fusion(const Graph& graph, const Shapes& shapes, OwnedList<Norm>& norms,
                   TrivialVector<int>& blame)
        : graph_(graph), shapes_(shapes), norms_(norms), norm_of_(graph.ops.size(), nullptr) {
        const int ops = static_cast<int>(graph.ops.size());
        for (int i = 0; i < ops; ++i) blame.push_back(i);
        for (int i = 0; i < ops; ++i) {
            if (graph.ops[at(i)].kind != OpKind::batch_norm) continue;
            groups_.push_back(fuse(i));
            blame[at(groups_.back().end)] = i;
        }
    }
    /// The norm that an operation belongs to, or null.
    [[nodiscard]] Norm* norm_of(int op) const { return norm_of_[at(op)]; }
    [[nodiscard]] const NormGroup& group(const Norm& n) const {
        int i = 0;
        while (&norms_[i] != &n) ++i;
        return groups_[at(i)];
    }

private:
    GX_COLD NormGroup fuse(int begin) {
        const int output = graph_.ops[at(begin)].output;
        Norm& n = norms_.add();
        norm_of_[at(begin)] = &n;
        NormGroup group{begin, begin};
        const int sum = only_reader(output, OpKind::add);
        const bool adds = sum >= 0 && norm_of_[at(sum)] == nullptr;
        if (adds) group.end = sum;
        const int relu = only_reader(graph_.ops[at(group.end)].output, OpKind::relu);
        if (relu >= 0) group.end = relu, n.relu = true;
        if (adds) {
            norm_of_[at(sum)] = &n;
            const auto& in = graph_.ops[at(sum)].inputs;
            group.residual = in[0] == output ? in[1] : in[0];
        }
        norm_of_[at(group.end)] = &n;
        return group;
    }
    [[nodiscard]] int only_reader(int tensor, OpKind kind) const {
        if (!shapes_.read_once(tensor)) return -1;
        const int r = shapes_.readers[at(tensor)].first;
        return graph_.ops[at(r)].kind == kind ? r : -1;
    }

    const Graph& graph_;
    const Shapes& shapes_;
    OwnedList<Norm>& norms_;
    TrivialVector<Norm*> norm_of_;
    TrivialVector<NormGroup> groups_{};  // in the order of the norms
};

}  // namespace gx::onednn::detail
