// expect: gx: MultiRing<0, ...> has no ring to send on
// expect: Fix: MultiRing<1, ...> or more.
#include <gx/reducer/multi_ring.hpp>

gx::MultiRing<0, gx::fp16> reducer;
