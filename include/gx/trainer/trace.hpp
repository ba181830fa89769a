// Chrome traces: the timeline of a run, for chrome://tracing and ui.perfetto.dev.
#pragma once

#include <array>        // names of tracks
#include <set>          // tracks seen
#include <span>         // spans
#include <string>       // the file's text
#include <string_view>  // names
#include <utility>      // pair

#include <fmt/format.h>  // numbers

#include <gx/core/trace.hpp>  // Span

namespace gx {

/// The trace as JSON text: ranks are processes, tracks are threads, stretches are complete events.
/// Units:  microseconds with three decimals, so whole nanoseconds survive.
/// Source: Chrome's "Trace Event Format"; activity names as Horovod's timeline writes them.
[[nodiscard]] inline std::string chrome_trace(std::span<const Span> spans) {
    std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    constexpr std::array<std::string_view, 3> track_names{"compute", "communication", "network"};
    std::set<std::pair<int, int>> named;  // (rank, track)
    const char* comma = "";
    for (const Span& s : spans) {
        const int thread = static_cast<int>(s.track);
        const std::int64_t begin = s.begin.count(), duration = (s.end - s.begin).count();
        if (named.emplace(s.rank, thread).second) {
            text += fmt::format("{}{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{},\"args\":{{\"name\":\"rank {}\"}}}},\n"
                                "{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":\"{}\"}}}}",
                                comma, s.rank, s.rank, s.rank, thread, track_names[std::size_t(thread)]);
            comma = ",\n";
        }
        text += fmt::format("{}{{\"name\":\"{}\",\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{}.{:03d},\"dur\":{}.{:03d},"
                            "\"args\":{{\"index\":{}}}}}",
                            comma, s.name.view(), s.rank, thread, begin / 1000, begin % 1000,
                            duration / 1000, duration % 1000, s.index);
        comma = ",\n";
    }
    return text + "\n]}\n";
}

}  // namespace gx
