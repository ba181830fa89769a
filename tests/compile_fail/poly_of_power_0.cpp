// expect: gx: Poly<P> needs a power of at least 1
// expect: Fix: write Poly<1> or Poly<2>
#include <gx/scheduler/poly.hpp>

constexpr gx::Poly<0> schedule{{}};
