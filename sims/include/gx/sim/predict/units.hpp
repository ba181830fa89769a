// Measure: what a unit of a published figure means: a rate, the time of a step, of a job, a share.
#pragma once

#include <array>        // words
#include <string>       // text
#include <string_view>  // words

#include <gx/core/error.hpp>  // Error

namespace gx::sim::predict {

/// Letters in lower case, all else as it is.
[[nodiscard]] inline std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if ('A' <= c && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
}
[[nodiscard]] inline bool has(std::string_view text, std::string_view word) {
    return text.find(word) != std::string_view::npos;
}

/// How a value follows from the step: more is better for a rate and a share, less for a time.
struct Measure {
    enum class Kind : unsigned char { rate, step_time, job_time, share };
    Kind kind = Kind::rate;
    double seconds = 1;  ///< in one unit of time; of a rate: in its denominator
    double epochs = 1;   ///< of a job
    bool tokens = false;
    bool per_gpu = false;  ///< a rate of one GPU

    bool operator==(const Measure&) const = default;
};

namespace detail {

/// Seconds in the unit of time that a unit opens with, or 0.
[[nodiscard]] inline double time_word(std::string_view unit) {
    struct Word {
        std::string_view text;
        double seconds;
    };
    constexpr std::array<Word, 15> words{
        {{"ms", 1e-3}, {"milliseconds", 1e-3}, {"us", 1e-6}, {"s", 1}, {"sec", 1},
         {"secs", 1}, {"second", 1}, {"seconds", 1}, {"min", 60}, {"mins", 60},
         {"minutes", 60}, {"h", 3600}, {"hour", 3600}, {"hours", 3600}, {"days", 86400}}};
    std::string_view first = unit.substr(0, unit.find_first_of(" /,("));
    for (const Word& w : words)
        if (first == w.text) return w.seconds;
    return 0;
}
/// The number before "epoch", or 1.
[[nodiscard]] inline double epochs_in(std::string_view unit) {
    const auto at = unit.find("epoch");
    if (at == std::string_view::npos) return 1;
    double n = 0, unit_of_digit = 1;
    for (auto i = at; i-- > 0;) {
        if (unit[i] == ' ' && n == 0) continue;
        if (unit[i] < '0' || unit[i] > '9') break;
        n += (unit[i] - '0') * unit_of_digit;
        unit_of_digit *= 10;
    }
    return n > 0 ? n : 1;
}

}  // namespace detail

/// Errors: gx::Error for a unit that is missing or says neither a rate, a time nor a share.
[[nodiscard]] inline Measure measure_of(std::string_view written, const std::string& field) {
    const std::string unit = lower(written);
    if (unit.empty())
        throw Error(field + "the unit is missing: write img/s, seq/s, tokens/s, s/iteration, "
                            "s/epoch, h for N epochs or %");
    Measure m;
    if (unit[0] == '%') {
        m.kind = Measure::Kind::share;
        return m;
    }
    m.seconds = detail::time_word(unit);
    if (m.seconds > 0) {
        const bool step = has(unit, "iter") || has(unit, "step") || has(unit, "batch") ||
                          (m.seconds < 1 && !has(unit, "epoch"));
        m.kind = step ? Measure::Kind::step_time : Measure::Kind::job_time;
        m.epochs = step ? 1 : detail::epochs_in(unit);
        return m;
    }
    for (const std::string_view per : {"/", " per "})
        if (const auto at = unit.find(per); at != std::string::npos) {
            m.seconds = detail::time_word(std::string_view(unit).substr(at + per.size()));
            m.tokens = has(unit, "token") || has(unit, "word");
            m.per_gpu = has(unit, "gpu");
            if (m.seconds > 0) return m;
        }
    throw Error(field + "unknown unit '" + std::string(written) +
                "': write img/s, seq/s, tokens/s, s/iteration, s/epoch, h for N epochs or %");
}

}  // namespace gx::sim::predict
