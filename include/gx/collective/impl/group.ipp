// Members: the checks, the inverse and the placement.
#pragma once

#include <utility>  // move

#include <gx/collective/group.hpp>  // the declarations

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
    const auto machine = [&](int i) { return at(i) / whole_.ranks_per_machine; };
    for (int i = 0; i < ranks(); ++i)
        if (machine(i) != machine(i - i % several)) return false;
    return true;
}

GX_DECL Members Members::of_machine(Placement whole, int machine) {
    GX_EXPECT(machine >= 0 && machine < whole.machines, "a machine of the placement");
    std::vector<int> ranks;
    for (int gpu = 0; gpu < whole.ranks_per_machine; ++gpu)
        ranks.push_back(machine * whole.ranks_per_machine + gpu);
    return {whole, std::move(ranks)};
}

GX_DECL Members Members::across_machines(Placement whole, int gpu) {
    GX_EXPECT(gpu >= 0 && gpu < whole.ranks_per_machine, "a rank of a machine");
    std::vector<int> ranks;
    for (int machine = 0; machine < whole.machines; ++machine)
        ranks.push_back(machine * whole.ranks_per_machine + gpu);
    return {whole, std::move(ranks)};
}

}  // namespace gx::collective
