// The right spelling of the reducer that the neighbour spells wrongly: it must compile.
#include <gx/parameter_server/reducer.hpp>

static_assert(gx::explain_reducer<gx::ParameterServer<gx::fp16>>());
