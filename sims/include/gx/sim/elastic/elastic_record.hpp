// Learner, ElasticOptions, ElasticRecord: interface, options and result of elastic training.
#pragma once

#include <concepts>  // same_as
#include <cstdint>   // uint64_t
#include <span>      // samples
#include <string>    // sentences
#include <vector>    // history

#include <gx/core/device.hpp>               // GradientsReady
#include <gx/core/error.hpp>                // LostRank
#include <gx/core/units.hpp>                // Nanoseconds
#include <gx/sim/elastic/elastic_core.hpp>  // Core
#include <gx/survival/concept.hpp>          // Recovery

namespace gx::sim {

/// One rank's model and optimizer; constructed for each rank of each segment.
///
///     elements()                     of its flat gradient
///     gradient(samples, scale, out, ready)
///                                    out = scale * the sum of the samples' gradients; it may take
///                                    time, and reports final parts of `out`, as a Device does
///     apply(mean, rate, step)        one update with the averaged gradient; step: updates before
///     state(), restore(state)        everything that determines the next update
template <class L>
concept Learner = requires(L& l, std::span<const std::uint32_t> samples, std::span<float> out,
                           std::span<const float> in, GradientsReady ready) {
    { l.elements() } -> std::convertible_to<std::int64_t>;
    { l.gradient(samples, float{}, out, ready) } -> std::same_as<void>;
    { l.apply(in, float{}, std::int64_t{}) } -> std::same_as<void>;
    { l.state() } -> std::same_as<std::vector<float>>;
    { l.restore(in) } -> std::same_as<void>;
};

using gx::Recovery;

template <class SchedulerOptions>
struct ElasticOptions {
    std::int64_t samples = 0;  ///< in an epoch
    int batch = 1;             ///< samples of a rank and step
    int epochs = 1;
    std::uint64_t seed = 1;  ///< of the order of samples
    std::int64_t bucket_elements = 0;
    SchedulerOptions scheduler{};
    Recovery recovery = Recovery::survivors;
    int checkpoint_every = 0;    ///< updates; 0: never
    int fewest_ranks = 1;        ///< with fewer survivors, training stops
    Nanoseconds restart_time{};  ///< to build a smaller world
};

/// One update of the final history: the mean over samples `begin` to `end` of the endless order.
struct ElasticUpdate {
    std::int64_t begin = 0, end = 0;
    int ranks = 0;
    float rate = 0;
    bool operator==(const ElasticUpdate&) const = default;
};

/// One world of a run, from its start to its end or to the loss of a rank.
struct ElasticSegment {
    Core core{};
    std::uint64_t first_update = 0;  ///< of the history so far
    std::uint64_t updates = 0;       ///< of the final history that were made here
    Nanoseconds elapsed{};
    std::uint64_t event_hash = 0;
    std::string ended{};      ///< the first survivor's error; empty: it reached its end
    std::vector<int> lost{};  ///< ranks of the whole cluster that do not take part afterwards
    std::vector<LostRank::Where> reported{};  ///< errors of the survivors that did not finish
};

struct ElasticRecord {
    std::vector<ElasticSegment> segments{};
    std::vector<ElasticUpdate> updates{};  ///< the final history
    std::vector<float> state{};
    Nanoseconds elapsed{};                ///< with the time of restarts
    std::vector<std::string> notes{};     ///< checkpoints that were torn, ranks excluded
    std::vector<std::string> problems{};  ///< of what must hold and did not: survivors that differ
    bool finished = false;
};

}  // namespace gx::sim
