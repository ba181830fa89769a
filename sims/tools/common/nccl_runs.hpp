// NcclRuns: files of --nccl-tests, of which each measured another part of the network.
#pragma once

#include <array>   // one of each kind
#include <string>  // files

#include <fmt/format.h>  // format

#include <gx/core/error.hpp>         // Error
#include <gx/sim/io/nccl_tests.hpp>  // NcclTests

namespace gx::tools {

/// One run on one host and one on several, by their files.
class NcclRuns {
public:
    /// Errors: gx::Error for a second run of the kind, whose rates would replace the first's.
    void add(const sim::NcclTests& tests, const std::string& file) {
        std::string& other = files_[tests.hosts > 1 ? 1 : 0];
        if (!other.empty())
            throw Error(
                fmt::format("--nccl-tests {} and {}: both are of {}: expected at most one "
                            "run on one host, for the links between its GPUs, and one on "
                            "several, for the network: give one of the two",
                            other, file, tests.hosts > 1 ? "several hosts" : "one host"));
        other = file;
    }

private:
    std::array<std::string, 2> files_{};
};

}  // namespace gx::tools
