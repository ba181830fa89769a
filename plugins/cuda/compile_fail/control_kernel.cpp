// A kernel of a program's own, with its CUDA kernel: it must compile.
#include <gx/cuda/launch.hpp>

namespace mine {
struct Negate {
    static constexpr std::string_view name = "negate";
    void operator()(std::span<float>) const {}
};
void launch_on(gx::cuda::Queue& queue, Negate, gx::cuda::DeviceSpan<float> values);
}  // namespace mine

void negate(gx::cuda::Queue& queue, gx::ViewIn<float, gx::cuda::GpuMemory> values) {
    launch(queue, mine::Negate{}, values);
}
