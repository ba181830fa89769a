// expect: gx: this is a World where a policy of a Trainer is expected.
// expect: Fix: leave it out, and hand it to 'train(world, data)'.
// errors: 1
#include <gx/reducer/ring.hpp>
#include <gx/reference/device.hpp>
#include <gx/scheduler/constant.hpp>
#include <gx/threads/threads.hpp>
#include <gx/trainer/trainer.hpp>

gx::Trainer<gx::Threads<2, gx::reference::Device>, gx::Ring<gx::fp16>, gx::Constant> trainer;
