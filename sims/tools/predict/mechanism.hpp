// Mechanism: how a framework exchanges gradients, read in its source and cited.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gx::tools::predict {

/// A row of data/mechanisms.json. Numbers that are 0 and a scheme that is empty are not stated: the
/// stack's own hold.
struct Mechanism {
    std::string name{};
    std::string scheme{};                    ///< as in data/stacks.json; its costs are PyTorch's
    std::vector<std::string> like{};         ///< without `scheme`: those that fit it; none: all
    std::string exchange{};                  ///< what is reduced at once, and beside what
    std::string divide{}, clip{}, update{};  ///< "unknown": not read in the source
    double bucket_mb = 0, fusion_mb = 0, cycle_ms = 0;
    double traffic = 1;  ///< of an all-reduce's bytes; above 1: parameters are
                         ///< sharded, and a rank updates its part
    double modules = 0;  ///< that are reduced one by one, of a network of usual depth
    bool timed = true;   ///< false: this is how it is, and no scheme is like it
    std::vector<std::string> sources{};  ///< repository@commit path:line, what

    /// One sentence of all that is known, with the first source.
    [[nodiscard]] std::string text() const;
};

/// The mechanism of a framework, named in lower case ("horovod 0.21, tensorflow"), or null where it
/// is not known. A version that is not stated counts as older than any. `collective`: as conditions
/// have it, in lower case; strategies of TensorFlow are named there too.
[[nodiscard]] const Mechanism* find_mechanism(std::string_view framework, std::string_view model,
                                              std::string_view collective = "");

/// Every row, in the order in which they are tried.
[[nodiscard]] const std::vector<Mechanism>& mechanisms();

}  // namespace gx::tools::predict
