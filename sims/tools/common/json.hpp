// parse_json: the value of a JSON text, with file and place of what is wrong.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace gx::tools {

using Json = nlohmann::ordered_json;

/// The value of a JSON text.
/// Errors: gx::Error with file, line and column of what is not JSON; with the number that a double
///         cannot hold; with the field that one object gives twice; for nesting deeper than 64.
[[nodiscard]] Json parse_json(std::string_view text, const std::string& file);

}  // namespace gx::tools
