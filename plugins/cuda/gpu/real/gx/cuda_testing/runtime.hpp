// What tests of the runtime's double include, where they run on a GPU: nothing is set or counted.
#pragma once

#include <cstdint>      // uint64_t
#include <string>       // names
#include <string_view>  // sentences

#include "../../../../tests/grid_or_gpu.hpp"  // NeedsGpu

namespace gx::cuda_testing {

enum class StreamProgress : unsigned char { late, eager, random };
struct Options {
    std::uint64_t seed = 0;
    StreamProgress progress = StreamProgress::late;
    int devices = 1;
    bool check_at_exit = true;
};
inline void reset(Options) {}
[[nodiscard]] inline std::string_view first_misuse() { return {}; }
inline void name_memory(const void*, const std::string&) {}
inline void expect_clean() {}

}  // namespace gx::cuda_testing
