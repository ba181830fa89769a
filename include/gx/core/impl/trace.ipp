// Vectors of spans and rates, and the start of a recording, once.
#pragma once

#include <gx/core/trace.hpp>  // the types

namespace gx {

GX_DECL void TraceSink::record(bool on, Nanoseconds now) {
    if (on == recording) return;
    recording = true;
    for (std::size_t l = 0; l < present.size(); ++l)
        if (present[l].count > 0 || last[l] > 0) set_rate(static_cast<int>(l), now, present[l]);
    recording = on;
}

}  // namespace gx

#if defined(GX_COMPILED)
template class std::vector<gx::Span>;
template class std::vector<gx::LinkRates::Change>;
#endif
