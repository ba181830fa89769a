// Chrome traces: the timeline of a run, for chrome://tracing and ui.perfetto.dev.
#pragma once

#include <algorithm>    // sort
#include <array>        // names of tracks
#include <set>          // tracks seen
#include <span>         // spans
#include <string>       // the file's text
#include <string_view>  // names
#include <tuple>        // order
#include <utility>      // pair
#include <vector>       // in order

#include <fmt/format.h>  // numbers

#include <gx/core/json_text.hpp>  // json_quoted
#include <gx/core/trace.hpp>      // Span

namespace gx {

/// The trace as JSON text: ranks are processes, tracks are threads, stretches are complete events.
/// Order:  rank by rank and track by track, each by its begin, the whole before its parts.
/// Units:  microseconds with three decimals, so whole nanoseconds survive.
/// Source: Chrome's "Trace Event Format"; activity names as Horovod's timeline writes them.
[[nodiscard]] inline std::string chrome_trace(std::span<const Span> spans) {
    std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    constexpr std::array<std::string_view, 3> track_names{"compute", "communication", "network"};
    std::set<std::pair<int, int>> named;  // (rank, track)
    const char* comma = "";
    std::vector<const Span*> in_order;
    for (const Span& s : spans) in_order.push_back(&s);
    std::ranges::sort(in_order, {}, [](const Span* s) {  // the whole before its parts
        return std::tuple(s->rank, s->track, s->begin, s->begin - s->end, s);
    });
    for (const Span* span : in_order) {
        const Span& s = *span;
        const int thread = static_cast<int>(s.track);
        const std::int64_t begin = s.begin.count(), duration = (s.end - s.begin).count();
        if (named.emplace(s.rank, thread).second) {
            text += fmt::format(
                "{}{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{},\"args\":{{\"name\":\"rank "
                "{}\"}}}},\n"
                "{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":"
                "\"{}\"}}}}",
                comma, s.rank, s.rank, s.rank, thread, track_names[std::size_t(thread)]);
            comma = ",\n";
        }
        text += fmt::format(
            "{}{{\"name\":{},\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{}.{:03d},\"dur\":{}.{:03d},"
            "\"args\":{{\"index\":{}}}}}",
            comma, json_quoted(s.name.view()), s.rank, thread, begin / 1000, begin % 1000,
            duration / 1000, duration % 1000, s.index);
        comma = ",\n";
    }
    return text + "\n]}\n";
}

}  // namespace gx
