// expect: gx: not a Scheduler: no aggregate 'Options'
#include <gx/scheduler/warmup.hpp>

gx::Warmup<int> schedule{{}};
