// Roster: nodes from host names.
#pragma once

#include <map>      // nodes by host name
#include <utility>  // move

#include <gx/coordination/roster.hpp>  // the declarations

namespace gx::coordination {

GX_DECL Roster::Roster(std::vector<MemberInfo> members) : members_(std::move(members)) {
    auto map = std::make_shared<Map>();
    std::map<std::string, int> node_of_host;
    std::vector<int> counts;
    for (const MemberInfo& m : members_) {
        const auto [found, is_new] = node_of_host.emplace(m.host, static_cast<int>(counts.size()));
        if (is_new) counts.push_back(0);
        map->node.push_back(found->second);
        map->local.push_back(counts[static_cast<std::size_t>(found->second)]++);
    }
    nodes_ = static_cast<int>(counts.size());
    map->view = {.node = map->node, .local_rank = map->local};
    map_ = std::move(map);
}

GX_DECL Placement Roster::placement() const {
    if (ranks() == 0) return {0, 1};
    const Placement regular{nodes_, ranks() / nodes_};
    bool fits = regular.ranks() == ranks();
    for (int r = 0; r < ranks() && fits; ++r) fits = node_of(r) == regular.node_of(r);
    return fits ? regular : Placement{nodes_, 0, &map_->view};
}

GX_DECL Roster Roster::of(const std::vector<int>& members) const {
    std::vector<MemberInfo> infos;
    for (const int r : members) infos.push_back(at(r));
    return Roster(std::move(infos));
}

}  // namespace gx::coordination
