// has: whether a sentence contains a part.
#pragma once

#include <string>

namespace testing_support {

inline bool has(const std::string& text, const std::string& part) {
    return text.find(part) != text.npos;
}

}  // namespace testing_support
