// expect: gx: not a Stream: no 'void wait(Event)'
#include <gx/core/stream.hpp>

struct Endless {
    gx::Event enqueue(gx::Task);
};
static_assert(gx::explain_stream<Endless>());
