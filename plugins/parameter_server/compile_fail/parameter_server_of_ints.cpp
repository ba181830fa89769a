// expect: gx: the wire of a parameter server is not an Element
// expect: Fix: name one, as in 'ParameterServer<gx::fp16>'.
#include <gx/parameter_server/reducer.hpp>

gx::ParameterServer<int> reducer;
