// expect: gx: this is a Reducer where the Model is expected: Trainer<Model, Reducer, Scheduler,
// later: gx: this is a Model where the Reducer is expected
// errors: 4
#include <gx/threads/threads.hpp>
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

// Using it must add no errors.
RunRecord train(Threads<2>& world, const Split& data) {
    const Trainer<Ring<fp16>, LeNet> trainer({.batch = 8, .epochs = 2});
    return trainer.train(world, data);
}
