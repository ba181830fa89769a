// expect: gx: a level of Hierarchical with a stale gradient
// expect: Fix: the other way about, as in 'DoubleBuffered<Hierarchical<SharedMemory<>, Ring<>>>'.
#include <gx/hierarchical/reducer.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/ring.hpp>

gx::Hierarchical<gx::Ring<>, gx::DoubleBuffered<gx::Ring<>>> reducer;
