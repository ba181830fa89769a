// expect: gx: LinearScaling of LinearScaling: the rate would be multiplied for the batch twice
#include <gx/scheduler/constant.hpp>
#include <gx/scheduler/linear_scaling.hpp>
#include <gx/scheduler/warmup.hpp>

gx::LinearScaling<gx::Warmup<gx::LinearScaling<gx::Constant>>> schedule{{}};
