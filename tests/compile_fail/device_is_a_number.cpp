// expect: gx: not a Device: no 'ForwardReport forward(const Batch&, Mode)'
#include <gx/core/device.hpp>

static_assert(gx::explain_device<int>());
