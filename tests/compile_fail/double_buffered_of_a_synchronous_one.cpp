// expect: gx: DoubleBuffered needs a reducer that can run beside the computation
// expect: Fix: use it without DoubleBuffered
#include <gx/reducer/double_buffered.hpp>

struct SyncOnly : gx::archetype::Reducer {
    static constexpr bool asynchronous = false;
};

gx::DoubleBuffered<SyncOnly> reducer;
