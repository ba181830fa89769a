// expect: gx: a bucket smaller than an element can't carry a gradient
// expect: Fix: give at least sizeof(wire_type::storage)
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/ring.hpp>

gx::Bucketed<gx::Ring<gx::fp16>, 1> reducer;
