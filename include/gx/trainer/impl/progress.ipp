// Bodies of progress.hpp.
#pragma once

#include <unistd.h>  // isatty

#include <algorithm>    // clamp
#include <cstdlib>      // getenv
#include <string_view>  // the kind of terminal

#include <fmt/core.h>  // the line

#include <gx/trainer/progress.hpp>

namespace gx {

GX_DECL Progress::Style Progress::style_of(std::FILE* out) {
    const char* const kind = std::getenv("TERM");
    const bool moves = kind != nullptr && std::string_view(kind) != "dumb";  // its cursor
    return ::isatty(::fileno(out)) && moves ? Style::bar : Style::lines;
}

GX_DECL void Progress::note(std::string_view words) {
    if (style_ == Style::silent) return;
    fmt::print(out_, "{}{}: {}\n", style_ == Style::bar ? "\r\x1b[K" : "", label_, words);
    std::fflush(out_);
}

GX_DECL void Progress::go_on(std::int64_t done, std::int64_t total) {
    first_ = done;
    total_ = total;
    tenth_ = tenth_of(done);
    start_ = std::chrono::steady_clock::now();
}

GX_DECL bool Progress::due(std::int64_t done) const {
    if (style_ == Style::silent) return false;
    if (style_ == Style::lines) return tenth_of(done) != tenth_;
    return done >= total_ ||
           std::chrono::steady_clock::now() - drawn_ >= std::chrono::milliseconds(100);
}

GX_DECL void Progress::update(std::int64_t done, std::string_view words) {
    if (!due(done)) return;
    const auto now = std::chrono::steady_clock::now();
    const bool last = done >= total_;
    tenth_ = tenth_of(done);
    drawn_ = now;
    const std::string text = line(done, std::chrono::duration<double>(now - start_).count(), words);
    if (style_ == Style::bar) {
        fmt::print(out_, "\r\x1b[K{}", text);
        if (last) fmt::print(out_, "\n");
    } else {
        fmt::print(out_, "{}\n", text);
    }
    std::fflush(out_);
}

GX_DECL std::string Progress::line(std::int64_t done, double elapsed,
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
                       100 * share, done, total_, unit_, rate, unit_, left / 60, left % 60, words);
}

}  // namespace gx
