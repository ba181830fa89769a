// expect: gx: LocalSgd<R, 0> never averages the parameters
// expect: Fix: LocalSgd<R, 1> or more.
#include <gx/local_sgd/reducer.hpp>
#include <gx/reducer/ring.hpp>

gx::LocalSgd<gx::Ring<>, 0> reducer;
