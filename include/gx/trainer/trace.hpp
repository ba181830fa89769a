// Chrome traces: the timeline of a run, for chrome://tracing and ui.perfetto.dev.
#pragma once

#include <span>    // spans
#include <string>  // the file's text

#include <gx/core/decl.hpp>   // GX_DECL
#include <gx/core/trace.hpp>  // Span, LinkRates

namespace gx {

/// Chrome trace as JSON text: ranks are processes, tracks are threads, spans are complete events.
/// Messages that overlap lie on as many network threads as it takes; from a send to its receive
/// goes an arrow, where both are there. Buckets that wait for their stream are QUEUE. The links'
/// rates are counters, in bytes per second, of a process of their own behind the ranks.
///
/// QUEUE, ALLREDUCE, MEMCPY_IN_FUSION_BUFFER and MEMCPY_OUT_FUSION_BUFFER are Horovod's names.
/// There is no NEGOTIATE_ALLREDUCE: the order of buckets is the same on all ranks without asking.
///
/// Order:  rank by rank and track by track, each by its begin, the whole before its parts; then
///         the rates by time. Equal spans give equal bytes.
/// Units:  microseconds with three decimals, so whole nanoseconds survive.
/// Source: Chrome's "Trace Event Format"; Horovod's docs/timeline.rst.
[[nodiscard]] GX_DECL std::string chrome_trace(std::span<const Span> spans,
                                               const LinkRates& rates = {});

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/impl/trace.ipp>
#endif
