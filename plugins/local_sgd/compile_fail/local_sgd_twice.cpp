// expect: gx: LocalSgd of a reducer that owns the update already
#include <gx/local_sgd/reducer.hpp>
#include <gx/reducer/ring.hpp>

gx::LocalSgd<gx::LocalSgd<gx::Ring<>, 4>, 4> reducer;
