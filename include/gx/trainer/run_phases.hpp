// RunPhase: a run's phase with the network for its image size; checks and rows.
#pragma once

#include <cstdint>  // int64_t
#include <span>     // phases
#include <string>   // sentences
#include <vector>   // phases

#include <gx/core/cold.hpp>               // GX_COLD
#include <gx/core/decl.hpp>               // GX_DECL
#include <gx/io/problems.hpp>             // Problems
#include <gx/loader/source.hpp>           // SourceInfo
#include <gx/model/graph.hpp>             // Graph
#include <gx/trainer/options.hpp>         // Phase
#include <gx/trainer/rank/timetable.hpp>  // Timetable
#include <gx/trainer/record.hpp>          // PhaseRow

namespace gx::detail::trainer {

struct RunPhase {
    int first_epoch = 0;
    int batch = 0;        ///< of one rank
    int image_side = 0;   ///< 0: the data's own height and width
    int micro_batch = 0;  ///< images that a device has at a time
    Graph graph{};
};

/// "phase 2 (from epoch 10: batch 32, images of 28 x 28)"; phases and epochs as the options count
/// them: from 1 and from 0.
GX_COLD [[nodiscard]] GX_DECL std::string phase_name(std::span<const Phase> phases,
                                                     std::size_t index);

/// Adds every problem of the list, but for what the model takes.
GX_COLD GX_DECL void check_phases(Problems& problems, std::span<const Phase> phases, int ranks,
                                  std::int64_t images);

/// Why the second phase can't go on with the parameters of the first, as a sentence without its
/// period; empty if it can. A network without global pooling has a first linear layer of another
/// size for each image size.
GX_COLD [[nodiscard]] GX_DECL std::string other_parameters(const Graph& first, const Graph& later);

GX_COLD [[nodiscard]] GX_DECL Timetable timetable_of(std::span<const RunPhase> phases, int ranks,
                                                     std::int64_t images);
GX_COLD [[nodiscard]] GX_DECL std::vector<PhaseRow> rows_of(std::span<const RunPhase> phases,
                                                            const Timetable& timetable);
/// "Phase 2, from epoch 10: batch 32 a rank, images of 28 x 28, 40 steps an epoch."
GX_COLD [[nodiscard]] GX_DECL std::string note_of(const PhaseRow& row, int number);

// Errors of a run; each throws gx::Error.
GX_COLD [[noreturn]] GX_DECL void throw_other_layout(int rank, int phase,
                                                     const std::string& device);
GX_COLD [[noreturn]] GX_DECL void throw_other_images(int rank, int phase, ImageShape expected,
                                                     ImageShape found, const std::string& loader);

}  // namespace gx::detail::trainer

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/impl/run_phases.ipp>
#endif
