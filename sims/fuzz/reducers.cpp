// All reducers that campaigns draw from, in one list: a seed means the same in every program.
#include <fuzz/reducers.hpp>

namespace gx::sim::fuzz {

const std::vector<FuzzedReducer>& reducers() {
    static const std::vector<FuzzedReducer> all = [] {
        std::vector<FuzzedReducer> list = ring_reducers();
        for (auto& s : stale_reducers()) list.push_back(s);
        for (auto& s : tree_reducers()) list.push_back(s);
        for (auto& s : server_reducers()) list.push_back(s);
        for (auto& s : lossy_reducers()) list.push_back(s);
        for (auto& s : owner_reducers()) list.push_back(s);
        // Seeds were recorded without these:
        for (auto& s : doubling_reducers()) list.push_back(s);
        for (auto& s : level_reducers()) list.push_back(s);
        return list;
    }();
    return all;
}

}  // namespace gx::sim::fuzz
