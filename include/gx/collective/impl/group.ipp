// Members: the checks, the inverse and the placement.
#pragma once

#include <algorithm>  // sort
#include <string>     // sentences
#include <utility>    // move

#include <gx/collective/group.hpp>  // the declarations
#include <gx/core/error.hpp>        // Error

namespace gx::collective {

GX_DECL Members::Members(Placement whole, std::vector<int> ranks)
    : whole_(whole), ranks_(std::move(ranks)), index_(static_cast<std::size_t>(whole.ranks()), -1) {
    GX_EXPECT(!ranks_.empty(), "a group needs at least one rank");
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
        GX_EXPECT(ranks_[i] >= 0 && ranks_[i] < whole.ranks(), "members are ranks of the whole");
        int& index = index_[static_cast<std::size_t>(ranks_[i])];
        GX_EXPECT(index < 0, "a rank is a member once");
        index = static_cast<int>(i);
    }
    int several = this->ranks();
    while (this->ranks() % several != 0 || !near_in_blocks_of(several)) --several;
    placement_ = {this->ranks() / several, several};
}

GX_DECL bool Members::near_in_blocks_of(int several) const {
    const auto machine = [&](int i) { return whole_.node_of(at(i)); };
    for (int i = 0; i < ranks(); ++i)
        if (machine(i) != machine(i - i % several)) return false;
    return true;
}

GX_DECL Members Members::of_machine(Placement whole, int machine) {
    GX_EXPECT(machine >= 0 && machine < whole.machines, "a machine of the placement");
    std::vector<int> ranks;
    for (int r = 0; r < whole.ranks(); ++r)
        if (whole.node_of(r) == machine) ranks.push_back(r);
    return {whole, std::move(ranks)};
}

GX_DECL Members Members::across_machines(Placement whole, int gpu) {
    GX_EXPECT(gpu >= 0 && (!whole.regular() || gpu < whole.ranks_per_machine),
              "a rank of a machine");
    std::vector<int> ranks;
    for (int r = 0; r < whole.ranks(); ++r)
        if (whole.local_rank(r) == gpu) ranks.push_back(r);
    if (std::ssize(ranks) != whole.machines)
        throw Error("only " + std::to_string(ranks.size()) + " of " +
                    std::to_string(whole.machines) + " machines have a rank " +
                    std::to_string(gpu) +
                    " of their own, and a group across machines needs one of each: start "
                    "equally many ranks on each machine");
    std::ranges::sort(ranks, {}, [&](int r) { return whole.node_of(r); });
    return {whole, std::move(ranks)};
}

}  // namespace gx::collective
