// expect: gx: this is an Element where the Reducer is expected
#include <gx/reducer/double_buffered.hpp>

gx::DoubleBuffered<gx::fp16> reducer;
