// expect: gx: ContinueOnSurvivors on devices can't report to this Reducer which gradients
#include <gx/model/lenet.hpp>
#include <gx/reference/device.hpp>
#include <gx/survival/continue_on_survivors.hpp>
#include <gx/testing/far/device.hpp>
#include <gx/top_k/reducer.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;
using FarNumbers = testing::FarDevice<reference::Device>;

RunRecord train(testing::FarWorld<FarNumbers>& world, const Split& data) {
    return Trainer<LeNet, TopK, Poly<2>, ContinueOnSurvivors>().train(world, data);
}
