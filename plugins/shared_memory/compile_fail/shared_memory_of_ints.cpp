// expect: gx: the values that SharedMemory adds are not an Element
// expect: Fix: name one, as in 'SharedMemory<gx::fp32>'.
#include <gx/shared_memory/reducer.hpp>

gx::SharedMemory<int> reducer;
