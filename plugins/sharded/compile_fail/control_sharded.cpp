// The right spelling of the reducers that the neighbours spell wrongly: they must compile.
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/sharded/reducer.hpp>

static_assert(gx::explain_reducer<gx::Sharded<gx::Ring<gx::fp16>>>());
static_assert(gx::OwnsUpdate<gx::Sharded<gx::Bucketed<gx::MultiRing<4>, 4 << 20>>>);
