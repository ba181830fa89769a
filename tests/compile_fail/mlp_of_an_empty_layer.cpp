// expect: gx: a hidden layer without units
// expect: Fix: give the sizes of the hidden layers
#include <gx/model/mlp.hpp>

constexpr auto name = gx::Mlp<300, 0>::name;
