// expect: gx: this DeviceKernel has no CUDA kernel.
// expect: Fix: use one of these, or give the kernel 'void launch_on(gx::cuda::Queue&,
#include <gx/cuda/launch.hpp>

struct Negate {
    static constexpr std::string_view name = "negate";
    void operator()(std::span<float>) const {}
};

void negate(gx::cuda::Queue& queue, gx::ViewIn<float, gx::cuda::GpuMemory> values) {
    launch(queue, Negate{}, values);
}
