// expect: gx: the levels of Hierarchical have two 16-bit wires
// expect: Fix: use one of them in both, or fp32 in one.
#include <gx/hierarchical/reducer.hpp>
#include <gx/reducer/ring.hpp>

gx::Hierarchical<gx::Ring<gx::fp16>, gx::Ring<gx::bf16>> reducer;
