// GX_EXPECT: a precondition; a violation stops the program with a sentence.
#pragma once

#include <cstdio>           // fprintf
#include <cstdlib>          // abort
#include <source_location>  // where the promise stands
#include <string_view>      // the sentence

namespace gx::detail {

[[noreturn]] inline void broken_contract(
    const char* condition, std::string_view sentence,
    std::source_location at = std::source_location::current()) {
    std::fprintf(stderr, "gx: %.*s\n    broken: %s\n    at:     %s:%u\n",
                 static_cast<int>(sentence.size()), sentence.data(), condition, at.file_name(),
                 static_cast<unsigned>(at.line()));
    std::abort();
}

}  // namespace gx::detail

/// Stops with `sentence` when `condition` is false; during constant evaluation the program does
/// not compile. For mistakes of the calling code; trouble outside the program is a gx::Error.
#define GX_EXPECT(condition, sentence)                                           \
    do {                                                                         \
        if (!(condition)) ::gx::detail::broken_contract(#condition, (sentence)); \
    } while (false)
