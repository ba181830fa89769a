// published_text(): reference/published/cases.json, whole.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

namespace gx::tools {

[[nodiscard]] inline std::string published_text() {
    std::ifstream in(GX_PUBLISHED_CASES, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace gx::tools
