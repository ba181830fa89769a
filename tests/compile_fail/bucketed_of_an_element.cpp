// expect: gx: this is an Element where the Reducer is expected
#include <gx/reducer/bucketed.hpp>

gx::Bucketed<gx::fp16, 1 << 20> reducer;
