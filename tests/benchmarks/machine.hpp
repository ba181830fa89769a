// machine: the name of this processor, which every figure is printed with.
#pragma once

#include <fstream>
#include <string>

namespace gx::bench {

/// As in "AMD EPYC 9R14"; "unknown" where /proc/cpuinfo has none.
inline std::string cpu_name() {
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);) {
        const auto colon = line.find(": ");
        if (line.starts_with("model name") && colon != std::string::npos)
            return line.substr(colon + 2);
    }
    return "unknown";
}

}  // namespace gx::bench
