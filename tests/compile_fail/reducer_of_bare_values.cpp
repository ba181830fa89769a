// expect: gx: not a Reducer: its 'all_reduce' takes values without their bucket
// errors: 1
#include <gx/reducer/ring.hpp>

struct Forwards : gx::Ring<gx::fp32> {
    gx::ReduceReport all_reduce(gx::Transport auto& link, std::span<float> values) {
        return Ring::all_reduce(link, values);  // of bucket 0 of gradient 0, whatever it was given
    }
};

static_assert(gx::explain_reducer<Forwards>());
