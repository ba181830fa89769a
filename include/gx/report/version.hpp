// version: that of gx.
#pragma once

namespace gx {

/// As CMake's project() has it, which compares both.
inline constexpr const char* version = "0.1.0";

}  // namespace gx
