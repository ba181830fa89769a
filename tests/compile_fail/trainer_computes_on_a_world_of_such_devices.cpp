// expect: gx: this Device does not compute in the element of the Trainer's Compute<E>
// errors: 2
#include <concepts>  // same_as

#include <gx/model/lenet.hpp>
#include <gx/onednn/device.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/sim/world/cluster.hpp>
#include <gx/sim/world/device.hpp>
#include <gx/testing/far/device.hpp>
#include <gx/testing/far/world.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

using Half = Trainer<LeNet, Ring<fp16>, Poly<2>, Compute<fp16>>;
struct NoHalves : onednn::Device {
    using Device::Device;
    template <class E>
    static constexpr bool computes = onednn::Device::computes<E> && !std::same_as<E, fp16>;
};
RunRecord simulated(sim::Cluster<NoHalves>& world, const Split& data) {
    return Half().train(world, data);
}
using Far = testing::FarWorld<testing::FarDevice<NoHalves>>;
RunRecord far(Far& world, const Split& data) { return Half().train(world, data); }
