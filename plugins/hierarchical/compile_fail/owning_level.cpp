// expect: gx: a level of Hierarchical that owns the update
// expect: Fix: 'LocalSgd<Hierarchical<SharedMemory<>, Ring<>>, 4>', or Sharded of one reducer
#include <gx/hierarchical/reducer.hpp>
#include <gx/local_sgd/reducer.hpp>
#include <gx/reducer/ring.hpp>

gx::Hierarchical<gx::LocalSgd<gx::Ring<>, 4>, gx::Ring<>> reducer;
