// expect: gx: the wire of a reducer is not an Element
#include <gx/reducer/multi_ring.hpp>

gx::MultiRing<4, int> reducer;
