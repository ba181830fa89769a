// ParameterProfile: networks without a graph: how many parameters, and where they are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gx::tools::predict {

/// Parameters in millions, and the shares of them that backward finishes first (a classifier) and
/// last (an embedding). Between these, gradients become ready evenly.
struct ParameterProfile {
    std::string name{};  ///< lower-case letters and digits
    double millions = 0, first = 0.05, last = 0;
};

/// The rows of data/parameter_profiles.json.
[[nodiscard]] const std::vector<ParameterProfile>& parameter_profiles();

/// N of "345M", "1.3B" or "175 B" in a name, in millions; 0: none.
[[nodiscard]] double millions_in(std::string_view name);

/// The profile with the longest name that opens `model`; null: none.
[[nodiscard]] const ParameterProfile* profile_opening(std::string_view model);

/// The same, else the longest name of at least four letters inside: "CLIP ViT-B/32", "bi-LSTM".
[[nodiscard]] const ParameterProfile* profile_of(std::string_view model);

}  // namespace gx::tools::predict
