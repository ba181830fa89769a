// expect: gx: not a Reducer: no element type 'wire_type'
#include <gx/reducer/bucketed.hpp>

gx::Bucketed<gx::fp16, 1 << 20> reducer;
