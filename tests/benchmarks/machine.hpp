// machine: the name of this processor, which every figure is printed with; programs that are there.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include <gx/core/error.hpp>  // Error

#include "../../sims/support/cpu_name.hpp"  // cpu_name

namespace gx::bench {

using gx::cpu_name;

/// Errors: gx::Error for a path of --python that can't be run: what is absent is no missing peer. A
/// name without a slash is looked for in PATH where it is run.
inline void expect_interpreter(const std::string& path) {
    if (path.find('/') != path.npos && access(path.c_str(), X_OK) != 0)
        throw Error("--python '" + path + "': it can't be run: " + std::strerror(errno) +
                    ". Name the path of a python3");
}

}  // namespace gx::bench
