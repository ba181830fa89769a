// Bodies of progress.hpp.
#pragma once

#include <sys/ioctl.h>  // the width of a terminal
#include <unistd.h>     // isatty

#include <algorithm>    // clamp, min
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

namespace detail::progress {

/// Characters that a line may have so that the terminal does not wrap it.
GX_COLD GX_DECL std::size_t columns_of(std::FILE* out) {
    winsize size{};
    const bool known = ::ioctl(::fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    return known ? size.ws_col - 1U : 79U;
}

/// Code points of UTF-8.
GX_COLD GX_DECL std::size_t characters(std::string_view text) {
    return std::size_t(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

/// The first `most` characters.
GX_COLD GX_DECL std::string first_of(std::string text, std::size_t most) {
    std::size_t seen = 0;
    for (std::size_t i = 0; i < text.size(); ++i)
        if ((text[i] & 0xC0) != 0x80 && seen++ == most) {
            text.resize(i);
            break;
        }
    return text;
}

GX_COLD GX_DECL std::string time_left(std::int64_t seconds) {
    const std::int64_t minutes = seconds / 60;
    if (minutes < 60) return fmt::format("{}:{:02d}", minutes, seconds % 60);
    return fmt::format("{}:{:02d}:{:02d}", minutes / 60, minutes % 60, seconds % 60);
}

}  // namespace detail::progress

GX_DECL void Progress::update(std::int64_t done, std::string_view words) {
    if (!due(done)) return;
    const auto now = std::chrono::steady_clock::now();
    const bool last = done >= total_;
    tenth_ = tenth_of(done);
    drawn_ = now;
    const double elapsed = std::chrono::duration<double>(now - start_).count();
    if (style_ == Style::bar) {
        const std::size_t columns = detail::progress::columns_of(out_);
        fmt::print(out_, "\r\x1b[K{}", line(done, elapsed, words, columns));
        if (last) fmt::print(out_, "\n");
    } else {
        fmt::print(out_, "{}\n", line(done, elapsed, words));
    }
    std::fflush(out_);
}

GX_DECL std::string Progress::line(std::int64_t done, double elapsed, std::string_view words,
                                   std::size_t columns) const {
    using namespace detail::progress;
    const double share = total_ > 0 ? std::clamp(double(done) / double(total_), 0.0, 1.0) : 1.0;
    const double rate = elapsed > 0 ? double(done - first_) / elapsed : 0.0;
    const std::int64_t left =
        rate > 0 ? static_cast<std::int64_t>(std::min(double(total_ - done) / rate, 1e9)) : 0;
    const std::string begin = fmt::format(" {:3.0f} %  {}/{} {}", 100 * share, done, total_, unit_);
    const std::string speed =
        fmt::format(fmt::runtime(rate < 100 ? "  {:.3g} {}/s" : "  {:.0f} {}/s"), rate, unit_);
    const std::string end = fmt::format("  {} left  {}", time_left(left), words);
    const std::size_t most = std::min<std::size_t>(columns, 1 << 20);
    const std::size_t shortest = characters(label_) + characters(begin) + characters(end);
    const std::size_t with_speed = shortest + characters(speed);
    if (style_ == Style::bar && with_speed + 3 < most) {
        const std::size_t width = std::min<std::size_t>(24, most - with_speed - 3);
        const auto full = static_cast<std::size_t>(share * double(width));
        return fmt::format("{} [{:=<{}}{:<{}}]{}{}{}", label_, "", full, full < width ? ">" : "",
                           width - full, begin, speed, end);
    }
    return first_of(label_ + begin + (with_speed <= most ? speed : "") + end, most);
}

}  // namespace gx
