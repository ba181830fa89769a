// expect: gx: a kernel gets a view of another memory than its queue's
#include <gx/memory/kernels.hpp>
#include <gx/memory/queue.hpp>
#include <gx/testing/far/memory.hpp>

void fill(gx::ViewIn<float, gx::testing::FarMemory> there) {
    gx::launch(gx::HostQueue{}, gx::kernels::Fill<float>{1}, there);
}
