// Measure: what a published figure's unit means: rate, step time, job time or share.
#pragma once

#include <string>
#include <string_view>

namespace gx::tools::predict {

/// How a value follows from the step: more is better for a rate and a share, less for a time.
struct Measure {
    enum class Kind : unsigned char { rate, step_time, job_time, share, step_rate };
    Kind kind = Kind::rate;
    double seconds = 1;  ///< in one unit of time; of a rate: in its denominator
    double epochs = 1;   ///< of a job
    bool tokens = false;
    bool per_gpu = false;   ///< a rate of one GPU
    bool per_node = false;  ///< a rate of one machine
    bool relative = false;  ///< a rate in no samples: a speedup, flops, epochs

    bool operator==(const Measure&) const = default;
};

/// The measure of a unit as people write it; `field` opens the error's sentence.
/// A rate may be in thousands, as "k img/s" or "ktok/s", or in millions, as "M tokens/s".
/// It is that of one GPU or machine by what follows "/s" or "per second" up to a comma, or stands
/// in a bracket of its own: "img/s per GPU", "img/s (per node)"; not "img/s, batch 64 per GPU".
/// Errors: gx::Error for a unit that is missing or says neither a rate, a time nor a share; for a
///         time of one example, as "ms/image" or "ms (per image)"; for one of several steps or
///         examples, as "s/100 it", "s/k steps", "s of 5 steps", "ms (100 steps)" or "days for 300
///         billion tokens"; for epochs that are no number, as "h for ten epochs"; for a "per", "/"
///         or "each" of a rate that is not understood, as "img/s per rack"; and for a rate in other
///         multiples, as "1000 img/s", "dozens of images/s", "Gtokens/s" or "img/s (thousands)".
[[nodiscard]] Measure measure_of(std::string_view written, const std::string& field);

}  // namespace gx::tools::predict
