// expect: gx: DoubleBuffered of a reducer that owns the update
#include <gx/local_sgd/reducer.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/ring.hpp>

gx::DoubleBuffered<gx::LocalSgd<gx::Ring<>, 4>> reducer;
