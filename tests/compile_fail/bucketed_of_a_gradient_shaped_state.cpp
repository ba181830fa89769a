// expect: gx: 'Bucketed' of a reducer with error feedback
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/testing/mutant.hpp>

struct Residual : gx::testing::Mutant<gx::Ring<gx::fp16>> {
    static constexpr bool state_is_a_gradient = true;
    gx::ReduceReport all_reduce(gx::Transport auto& link, std::span<float> bucket) {
        return inner_.all_reduce(link, bucket);
    }
};

gx::Bucketed<gx::DoubleBuffered<Residual>, 1024> reducer;
