// GX_DECL: `inline` in a header-only build, nothing where gx::compiled provides the definitions.
#pragma once

// Ordinary functions are declared with GX_DECL in `name.hpp` and defined in `impl/name.ipp`. By
// default the header includes that file at its end. With GX_COMPILED, which the target gx::compiled
// defines, it does not, and the definitions come from libraries that were built once.
#if defined(GX_COMPILED)
#define GX_DECL
#else
#define GX_HEADER_ONLY 1
#define GX_DECL inline
#endif

// A program that mixes both modes would hold two definitions of each function. Its link fails: the
// symbol below is thread-local in one mode and not in the other.
#define GX_LINK_MODE \
    gx_error_this_program_mixes_header_only_and_compiled_gx__link_gx_compiled_everywhere_or_nowhere
#if defined(GX_COMPILED)
extern const char GX_LINK_MODE;
#else
inline thread_local const char GX_LINK_MODE = 0;
#endif
namespace {
[[gnu::used]] inline const void* gx_link_mode() { return &GX_LINK_MODE; }
}  // namespace
