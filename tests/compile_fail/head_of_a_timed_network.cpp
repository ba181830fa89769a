// expect: gx: no such Head: no device computes the layers behind the cut
// errors: 1
#include <gx/model/gpt.hpp>
#include <gx/model/head.hpp>

constexpr int classes = gx::Head<gx::Gpt<2, 32, 2, 16, 100>, "transformer.h.1">::classes;
