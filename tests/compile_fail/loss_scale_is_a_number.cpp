// expect: gx: not a LossScale: one of 'Options', 'float scale() const'

#include <gx/trainer/loss_scale.hpp>

static_assert(gx::explain_loss_scale<int>());
