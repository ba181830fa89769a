// What a checkpoint lacks for a rank's state, in a sentence.
#pragma once

#include <string>  // sentences

#include <gx/core/error.hpp>          // Error
#include <gx/trainer/rank_state.hpp>  // the declarations

namespace gx::detail::trainer {

GX_DECL void expect_kept(const std::string& file, std::size_t kept, std::size_t needed,
                         const std::string& what) {
    if (kept == needed) return;
    throw Error("checkpoint '" + file + "' keeps " + std::to_string(kept) + " " + what +
                " where this run needs " + std::to_string(needed) +
                ". Resume with the composition that wrote it.");
}

GX_DECL void expect_named(const std::string& file, const std::string& kept,
                          const std::string& needed, const std::string& policy) {
    if (kept == needed) return;
    throw Error("checkpoint '" + file + "' keeps '" + kept + "' of " + policy +
                " where this run has '" + needed + "'. Resume with the composition that wrote it.");
}

}  // namespace gx::detail::trainer
