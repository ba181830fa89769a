// The right spelling of what the neighbours spell wrongly: it must compile.
#include <gx/hierarchical/reducer.hpp>
#include <gx/local_sgd/reducer.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/shared_memory/reducer.hpp>

static_assert(gx::explain_reducer<
              gx::DoubleBuffered<gx::Hierarchical<gx::Ring<gx::fp32>, gx::Ring<gx::fp16>>>>());
static_assert(
    gx::explain_reducer<gx::LocalSgd<gx::Hierarchical<gx::SharedMemory<>, gx::Ring<>>, 4>>());
