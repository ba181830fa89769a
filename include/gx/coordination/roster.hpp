// Roster: members of a run by rank, and machines that their host names make.
#pragma once

#include <memory>  // the node map stays where it is
#include <vector>  // members

#include <gx/coordination/message.hpp>  // MemberInfo
#include <gx/core/decl.hpp>             // GX_DECL
#include <gx/core/transport.hpp>        // Placement, NodeMap

namespace gx::coordination {

/// Members of a run. Ranks of one host name are on one node; nodes count from 0 in the order of
/// their lowest ranks. local_rank(r) is the one that the member's launcher gave or, where it gave
/// none, the number of lower ranks on its node.
class Roster {
public:
    Roster() = default;
    explicit Roster(std::vector<MemberInfo> members);

    [[nodiscard]] int ranks() const { return static_cast<int>(members_.size()); }
    [[nodiscard]] int nodes() const { return nodes_; }
    [[nodiscard]] const MemberInfo& at(int rank) const {
        return members_[static_cast<std::size_t>(rank)];
    }
    [[nodiscard]] int node_of(int rank) const { return map_->node[std::size_t(rank)]; }
    [[nodiscard]] int local_rank(int rank) const {
        const int given = at(rank).local_rank;
        return given >= 0 ? given : map_->local[std::size_t(rank)];
    }
    /// Regular where it can be: equally many ranks on each node, one node after the other. Else
    /// ragged, and valid while a copy of this roster lives.
    [[nodiscard]] Placement placement() const;
    /// Of some of its ranks: rank r of it is rank members[r] here.
    [[nodiscard]] Roster of(const std::vector<int>& members) const;

private:
    struct Map {
        std::vector<int> node{}, local{};
        NodeMap view{};
    };
    std::vector<MemberInfo> members_{};
    std::shared_ptr<const Map> map_{};
    int nodes_ = 0;
};

}  // namespace gx::coordination

#if defined(GX_HEADER_ONLY)
#include <gx/coordination/impl/roster.ipp>
#endif
