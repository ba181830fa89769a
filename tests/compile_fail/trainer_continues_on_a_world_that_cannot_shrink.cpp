// expect: gx: this World can't go on without a rank: no 'gx::Survivors<World> survivors(
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/reference/device.hpp>
#include <gx/survival/continue_on_survivors.hpp>
#include <gx/testing/processes.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

RunRecord train(testing::Processes<2, reference::Device>& world, const Split& data) {
    return Trainer<LeNet, Ring<fp16>, Poly<2>, ContinueOnSurvivors>().train(world, data);
}
