// ParameterProfile: networks without a graph: how many parameters, and where they are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <tools/common/text.hpp>  // Word

namespace gx::tools::predict {

/// Parameters in millions, and the shares of them that backward finishes first (a classifier) and
/// last (an embedding). Between these, gradients become ready evenly.
struct ParameterProfile {
    std::string name{};  ///< lower-case letters and digits
    double millions = 0, first = 0.05, last = 0;
};

/// The rows of data/parameter_profiles.json.
[[nodiscard]] const std::vector<ParameterProfile>& parameter_profiles();

/// Whether a model's name begins with one in plain lower-case letters and digits, or has it inside,
/// and no number is cut, nor a word that begins with a size: "ResNet-500" is not "resnet50", nor is
/// "ViT-bigG" "vitb". "DeBERTa" has no "bert" inside. Apart is a name that no letter or digit
/// stands before.
[[nodiscard]] bool opens_with(std::string_view model, std::string_view name);
[[nodiscard]] bool holds(std::string_view model, std::string_view name, Word how = Word::inside);

/// N of "345M", "1,300M", "1.3B", "8.3 bn", "175 billion" or "1T" in a name, in millions; 0: none.
/// Numbers of tokens, words and images are none of parameters.
[[nodiscard]] double millions_in(std::string_view name);

/// A part of a name that looks like such a number and is not read as one: "8x7B", "1,3B", "0B".
[[nodiscard]] std::string unread_size(std::string_view name);

/// Whether a name states a width: "ResNet-50 (4x)", "ResNet-50x4", "double width"; not "1x" nor "4x
/// V100".
[[nodiscard]] bool states_width(std::string_view name);

/// The profile with the longest name that opens `model`; null: none.
[[nodiscard]] const ParameterProfile* profile_opening(std::string_view model);

/// The same, else the longest name of at least four letters inside: "CLIP ViT-B/32", "bi-LSTM".
[[nodiscard]] const ParameterProfile* profile_of(std::string_view model);

}  // namespace gx::tools::predict
