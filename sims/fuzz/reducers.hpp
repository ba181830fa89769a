// The lists of reducers that campaigns run, one for each file that compiles them.
#pragma once

#include <vector>  // lists

#include <fuzz/verdict.hpp>  // FuzzedReducer

namespace gx::sim::fuzz {

[[nodiscard]] std::vector<FuzzedReducer> ring_reducers();
[[nodiscard]] std::vector<FuzzedReducer> stale_reducers();
[[nodiscard]] std::vector<FuzzedReducer> tree_reducers();
[[nodiscard]] std::vector<FuzzedReducer> server_reducers();
[[nodiscard]] std::vector<FuzzedReducer> lossy_reducers();
[[nodiscard]] std::vector<FuzzedReducer> owner_reducers();
[[nodiscard]] std::vector<FuzzedReducer> doubling_reducers();
[[nodiscard]] std::vector<FuzzedReducer> level_reducers();

}  // namespace gx::sim::fuzz
