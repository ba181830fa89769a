// expect: gx: LocalSgd of a reducer with stale gradients
// expect: Fix: LocalSgd of the reducer without DoubleBuffered.
#include <gx/local_sgd/reducer.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/ring.hpp>

gx::LocalSgd<gx::DoubleBuffered<gx::Ring<>>, 4> reducer;
