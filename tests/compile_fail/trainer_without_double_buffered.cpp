// expect: include its header. Fix: #include <gx/reducer/double_buffered.hpp>
// errors: 2
#include <gx/threads/threads.hpp>
#include <gx/model/lenet.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

RunRecord train(Threads<2>& world, const Split& data) {
    const Trainer<LeNet, DoubleBuffered<MultiRing<4, fp16>>> trainer({.batch = 8});
    return trainer.train(world, data);
}
