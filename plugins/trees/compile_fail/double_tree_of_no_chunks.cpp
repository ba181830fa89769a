// expect: gx: DoubleTree<0, ...> has nothing to send
// expect: Fix: DoubleTree<1, ...> or more.
#include <gx/trees/double_tree.hpp>

gx::DoubleTree<0, gx::fp16> reducer;
