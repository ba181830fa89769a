// expect: gx: LinearScaling of LinearScaling: the rate would be multiplied for the batch twice
#include <gx/scheduler/constant.hpp>
#include <gx/scheduler/linear_scaling.hpp>

gx::LinearScaling<gx::LinearScaling<gx::Constant>> schedule{{}};
