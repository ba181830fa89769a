// The symbol that every object of a program with compiled libraries refers to.
#pragma once

#include <gx/core/decl.hpp>  // GX_LINK_MODE

extern const char GX_LINK_MODE = 0;
