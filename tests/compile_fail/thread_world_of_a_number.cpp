// expect: gx: ThreadWorld(number): as if on how many machines?
#include <gx/reference/device.hpp>
#include <gx/threads/threads.hpp>

gx::ThreadWorld<gx::reference::Device> world(4);
