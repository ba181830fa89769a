// expect: gx: this reducer owns the update in the host's memory only
// expect: Fix: use LocalSgd
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/reference/device.hpp>
#include <gx/sharded/reducer.hpp>
#include <gx/testing/far/device.hpp>
#include <gx/testing/far/world.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

using Far = testing::FarWorld<testing::FarDevice<reference::Device>>;
RunRecord far(Far& world, const Split& data) {
    return Trainer<LeNet, Sharded<Ring<fp32>>, Poly<2>>().train(world, data);
}
