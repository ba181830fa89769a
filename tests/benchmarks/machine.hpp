// machine: the name of this processor, which every figure is printed with; programs that are there.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include <gx/core/error.hpp>  // Error

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

/// Errors: gx::Error for a path of --python that can't be run: what is absent is no missing peer. A
/// name without a slash is looked for in PATH where it is run.
inline void expect_interpreter(const std::string& path) {
    if (path.find('/') != path.npos && access(path.c_str(), X_OK) != 0)
        throw Error("--python '" + path + "': it can't be run: " + std::strerror(errno) +
                    ". Name the path of a python3");
}

}  // namespace gx::bench
