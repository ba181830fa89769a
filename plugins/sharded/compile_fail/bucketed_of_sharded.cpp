// expect: gx: Bucketed of a reducer that owns the update
// expect: Fix: the other way about
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/sharded/reducer.hpp>

gx::Bucketed<gx::Sharded<gx::Ring<>>, 4 << 20> reducer;
