// Progress: a bar with rate and remaining time on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>       // the wall clock: a person waits
#include <cstddef>      // size_t
#include <cstdint>      // int64_t
#include <cstdio>       // FILE
#include <string>       // the line
#include <string_view>  // label
#include <utility>      // move

#include <gx/core/cold.hpp>  // GX_COLD
#include <gx/core/decl.hpp>  // GX_DECL

namespace gx {

/// Progress of a long run. A terminal's line is redrawn about ten times a second, as wide as the
/// terminal then is; in a file or a pipe a plain line is written at every tenth of the total.
/// Units: rate in `unit` per wall second; remaining time as m:ss, from an hour on as h:mm:ss.
class Progress {
public:
    enum class Style : unsigned char { silent, lines, bar };
    /// `bar` for a terminal that TERM names as one whose lines can be written over, else `lines`.
    [[nodiscard]] static Style style_of(std::FILE* out);

    Progress(std::string label, std::int64_t total, std::string unit, Style style,
             std::FILE* out = stderr)
        : label_(std::move(label)),
          unit_(std::move(unit)),
          total_(total),
          style_(style),
          out_(out) {}

    [[nodiscard]] bool silent() const { return style_ == Style::silent; }
    /// Excludes from the rate the first `done`, which were done before.
    void resume_from(std::int64_t done) { first_ = done; }

    /// As resume_from() now, of another total.
    GX_COLD void go_on(std::int64_t done, std::int64_t total);

    /// Whether update() would now write; words need no formatting else.
    [[nodiscard]] bool due(std::int64_t done) const;
    /// Prints a line of its own, unless silent.
    GX_COLD void note(std::string_view words);
    /// Shows `done` of the total, with a few words such as the loss.
    GX_COLD void update(std::int64_t done, std::string_view words);
    /// The line after `elapsed` wall seconds, of at most `columns` characters: the bar gives way
    /// first, then the rate, then the end of the words. Pure, so that tests need no clock.
    GX_COLD [[nodiscard]] std::string line(std::int64_t done, double elapsed,
                                           std::string_view words,
                                           std::size_t columns = std::string_view::npos) const;

private:
    [[nodiscard]] std::int64_t tenth_of(std::int64_t done) const {
        return total_ > 0 ? done * 10 / total_ : 10;
    }

    std::string label_, unit_;
    std::int64_t total_, first_ = 0;
    Style style_;
    std::FILE* out_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), drawn_{};
    std::int64_t tenth_ = 0;
};

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/impl/progress.ipp>
#endif
