// The right spelling of the reducer that the neighbour spells wrongly: it must compile.
#include <gx/shared_memory/reducer.hpp>

static_assert(gx::explain_reducer<gx::SharedMemory<gx::fp16>>());
