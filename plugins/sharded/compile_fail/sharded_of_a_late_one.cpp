// expect: gx: Sharded of a reducer with stale gradients
// expect: Fix: Sharded of the reducer without DoubleBuffered.
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/sharded/reducer.hpp>

gx::Sharded<gx::DoubleBuffered<gx::Ring<>>> reducer;
