// The right spelling of the reducer that the neighbour spells wrongly: it must compile.
#include <gx/trees/double_tree.hpp>

static_assert(gx::explain_reducer<gx::DoubleTree<1, gx::fp16>>());
