// expect: gx: a reducer does not know where to divide
#include <gx/reducer/ring.hpp>

gx::Ring<gx::fp16, int> reducer;
