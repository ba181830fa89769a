// expect: gx: this is an Optimizer where the Scheduler is expected: Trainer<Model, Reducer,
// later: gx: this Scheduler stands behind another
// errors: 4
#include <gx/threads/threads.hpp>
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

RunRecord train(Threads<2>& world, const Split& data) {
    const Trainer<LeNet, Ring<fp16>, Sgd, Poly<2>> trainer({.batch = 8, .optimizer = {}});
    return trainer.train(world, data);
}
