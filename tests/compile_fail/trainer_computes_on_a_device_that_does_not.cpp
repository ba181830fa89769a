// expect: gx: this Device does not compute in the element of the Trainer's Compute<E>
// expect: Fix: leave Compute<E> out, or train on a device that does, as gx::reference::Device
// errors: 1
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/reference/device.hpp>
#include <gx/threads/threads.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

struct InFp32 : reference::Device {
    using reference::Device::Device;
    template <class E>
    static constexpr bool computes = std::same_as<E, fp32>;
};
RunRecord train(Threads<2, InFp32>& world, const Split& data) {
    return Trainer<LeNet, Ring<fp16>, Poly<2>, Compute<bf16>>().train(world, data);
}
