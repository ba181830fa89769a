// The right spelling of the reducer that the neighbour spells wrongly: it must compile.
#include <gx/quantized/reducer.hpp>

static_assert(gx::explain_reducer<gx::Quantized<4>>());
