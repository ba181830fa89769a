// expect: gx: a kernel on the memory of a device gets a span of the host's memory
#include <gx/memory/kernels.hpp>
#include <gx/testing/far/queue.hpp>

void fill(gx::testing::FarQueue& queue, std::span<float> here) {
    launch(queue, gx::kernels::Fill<float>{1}, here);
}
