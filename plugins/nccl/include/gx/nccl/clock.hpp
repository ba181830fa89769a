// Now: the clock of deadlines.
#pragma once

#include <chrono>  // steady_clock

namespace gx::nccl {

/// Returns the time by which deadlines are met. A test gives one that it sets.
/// Threads: any.
using Now = std::chrono::steady_clock::time_point (*)();

inline std::chrono::steady_clock::time_point steady_now() {
    return std::chrono::steady_clock::now();
}

}  // namespace gx::nccl
