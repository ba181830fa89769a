// expect: gx: the wire of a reducer is not an Element
// expect: Fix: name one, as in 'Ring<gx::fp16>'.
#include <gx/reducer/ring.hpp>

gx::Ring<int> reducer;
