// expect: gx: this is an Optimizer where the Scheduler is expected
// errors: 2
#include <gx/optimizer/sgd.hpp>
#include <gx/scheduler/warmup.hpp>

gx::Warmup<gx::Sgd> schedule{{}};
