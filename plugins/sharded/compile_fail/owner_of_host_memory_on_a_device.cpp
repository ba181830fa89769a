// expect: gx: this reducer owns the update in the host's memory only
// expect: Fix: add 'void own_update(int rank, Buffer<float>& state)'
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/reference/device.hpp>
#include <gx/sharded/reducer.hpp>
#include <gx/testing/far/device.hpp>
#include <gx/testing/far/world.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

struct OnHosts : Sharded<Ring<fp32>> {
    using Sharded::Sharded;
    void own_update(int rank, std::span<float> state) { Sharded::own_update(rank, state); }
};
using Far = testing::FarWorld<testing::FarDevice<reference::Device>>;
RunRecord far(Far& world, const Split& data) {
    return Trainer<LeNet, OnHosts, Poly<2>>().train(world, data);
}
