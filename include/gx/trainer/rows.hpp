// rows_text, read_rows: steps, epochs and breakdown of a run record as JSON text.
#pragma once

#include <array>        // keys
#include <string>       // text
#include <string_view>  // text

#include <gx/core/cold.hpp>       // GX_COLD
#include <gx/core/decl.hpp>       // GX_DECL
#include <gx/trainer/record.hpp>  // RunRecord

namespace gx {

namespace detail::rows {

/// Members whose name has no unit, and their keys.
inline constexpr std::array<std::array<std::string_view, 2>, 9> units{
    {{"loss", "loss_nats"},
     {"loss_of_rank", "loss_of_rank_nats"},
     {"train_loss", "train_loss_nats"},
     {"test_loss", "test_loss_nats"},
     {"compute", "compute_seconds"},
     {"exposed_communication", "exposed_communication_seconds"},
     {"input", "input_seconds"},
     {"idle", "idle_seconds"},
     {"batch_per_rank", "batch_per_rank_images"}}};
[[nodiscard]] constexpr std::string_view key(std::string_view member) {
    for (const auto& [name, with_unit] : units)
        if (name == member) return with_unit;
    return member;
}

}  // namespace detail::rows

/// Returns steps, epochs and breakdown as JSON: what a checkpoint keeps of a record. Keys are the
/// members' names, with the unit where the name has none.
GX_COLD [[nodiscard]] GX_DECL std::string rows_text(const RunRecord& r);

/// Reads what rows_text wrote and replaces the same parts of `r`.
/// Errors: JsonError for a text that is not JSON, or a missing field; `r` is then untouched.
GX_COLD GX_DECL void read_rows(std::string_view text, RunRecord& r);

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/impl/rows.ipp>
#endif
