// expect: gx: not a Reducer: no element type 'wire_type'
#include <gx/reducer/double_buffered.hpp>

gx::DoubleBuffered<gx::fp16> reducer;
