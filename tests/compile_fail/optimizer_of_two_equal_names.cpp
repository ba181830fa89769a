// expect: gx: not an Optimizer: two of its 'state_names' or 'scalar_names' are equal
#include <gx/optimizer/sgd.hpp>
#include <gx/optimizer/weight_average.hpp>

static_assert(gx::explain_optimizer<gx::WeightAverage<gx::WeightAverage<gx::Sgd>>>());
