// expect: gx: ContinueOnSurvivors on devices settles on the host what a loss has left unsettled
#include <gx/model/lenet.hpp>
#include <gx/reference/device.hpp>
#include <gx/survival/continue_on_survivors.hpp>
#include <gx/testing/far/device.hpp>
#include <gx/top_k/reducer.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;
using FarNumbers = testing::FarDevice<reference::Device>;

struct Hidden : TopK {
    using TopK::TopK;
    void unsettled() = delete;
};

RunRecord train(testing::FarWorld<FarNumbers>& world, const Split& data) {
    return Trainer<LeNet, Hidden, Poly<2>, ContinueOnSurvivors>().train(world, data);
}
