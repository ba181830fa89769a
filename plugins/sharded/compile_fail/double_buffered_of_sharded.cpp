// expect: gx: DoubleBuffered of a reducer that owns the update
// expect: Fix: use it without DoubleBuffered.
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/sharded/reducer.hpp>

gx::DoubleBuffered<gx::Sharded<gx::Ring<>>> reducer;
