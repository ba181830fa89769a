// Progress: a bar with rate and remaining time on a terminal, plain lines elsewhere.
#pragma once

#include <unistd.h>  // isatty

#include <algorithm>    // clamp
#include <chrono>       // the wall clock: a person waits
#include <cstdint>      // int64_t
#include <cstdio>       // FILE
#include <string>       // the line
#include <string_view>  // label

#include <fmt/core.h>  // the line

#include <gx/core/cold.hpp>  // GX_COLD

namespace gx {

/// Tells how far a long run is. On a terminal one line is redrawn about ten times a second; in a
/// file or a pipe a plain line is written every tenth of the way.
/// Units: rate in `unit` per wall second; remaining time in minutes and seconds.
class Progress {
public:
    enum class Style : unsigned char { silent, lines, bar };
    [[nodiscard]] static Style style_of(std::FILE* out) {
        return ::isatty(::fileno(out)) ? Style::bar : Style::lines;
    }

    Progress(std::string label, std::int64_t total, std::string unit, Style style,
             std::FILE* out = stderr)
        : label_(std::move(label)), unit_(std::move(unit)), total_(total), style_(style),
          out_(out) {}

    /// `done` of the total were done before: they don't count in the rate.
    void resume_from(std::int64_t done) { first_ = done; }

    /// `done` of the total, with a few words such as the loss.
    GX_COLD void update(std::int64_t done, std::string_view words) {
        if (style_ == Style::silent) return;
        const auto now = std::chrono::steady_clock::now();
        const bool last = done >= total_;
        if (style_ == Style::bar) {
            if (!last && now - drawn_ < std::chrono::milliseconds(100)) return;
        } else {
            const std::int64_t tenth = total_ > 0 ? done * 10 / total_ : 10;
            if (tenth == tenth_) return;
            tenth_ = tenth;
        }
        drawn_ = now;
        const std::string text =
            line(done, std::chrono::duration<double>(now - start_).count(), words);
        if (style_ == Style::bar) {
            fmt::print(out_, "\r\x1b[K{}", text);
            if (last) fmt::print(out_, "\n");
        } else {
            fmt::print(out_, "{}\n", text);
        }
        std::fflush(out_);
    }

    /// The line after `elapsed` wall seconds; pure, so that tests need no clock.
    GX_COLD [[nodiscard]] std::string line(std::int64_t done, double elapsed,
                                           std::string_view words) const {
        const double share = total_ > 0 ? std::clamp(double(done) / double(total_), 0.0, 1.0) : 1.0;
        const double rate = elapsed > 0 ? double(done - first_) / elapsed : 0.0;
        const std::int64_t left =
            rate > 0 ? static_cast<std::int64_t>(std::min(double(total_ - done) / rate, 1e9)) : 0;
        std::string bar;
        if (style_ == Style::bar) {
            constexpr int width = 24;
            const int full = static_cast<int>(share * width);
            bar = fmt::format(" [{:=<{}}{:<{}}]", "", full, full < width ? ">" : "", width - full);
        }
        return fmt::format("{}{} {:3.0f} %  {}/{} {}  {:.0f} {}/s  {}:{:02d} left  {}", label_, bar,
                           100 * share, done, total_, unit_, rate, unit_,
                           left / 60, left % 60, words);
    }

private:
    std::string label_, unit_;
    std::int64_t total_, first_ = 0;
    Style style_;
    std::FILE* out_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), drawn_{};
    std::int64_t tenth_ = 0;
};

}  // namespace gx
