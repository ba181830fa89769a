// process_cores: how many cores this process may compute on, as its world says.
#pragma once

#include <atomic>  // set by a world, read by devices

namespace gx::coordination {

/// Cores that the ranks of this process divide among them; 0: all that the system shows. A world
/// whose ranks are several processes of one machine sets it to a process's share, before it makes
/// devices; devices on CPUs take no more threads. It changes no bits.
[[nodiscard]] inline std::atomic<int>& process_cores() {
    static std::atomic<int> cores{0};
    return cores;
}

}  // namespace gx::coordination
