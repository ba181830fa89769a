// expect: gx: Sharded of a reducer that owns the update already
#include <gx/reducer/ring.hpp>
#include <gx/sharded/reducer.hpp>

gx::Sharded<gx::Sharded<gx::Ring<>>> reducer;
