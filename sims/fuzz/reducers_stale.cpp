// Buckets of the reducer's own size, and gradients that are one or two steps stale.
#include <fuzz/reducers.hpp>
#include <fuzz/trial.hpp>

#include <gx/reducer/bucketed.hpp>         // Bucketed
#include <gx/reducer/double_buffered.hpp>  // DoubleBuffered
#include <gx/reducer/multi_ring.hpp>       // MultiRing
#include <gx/reducer/ring.hpp>             // Ring

namespace gx::sim::fuzz {

std::vector<FuzzedReducer> stale_reducers() {
    using Twice = DoubleBuffered<DoubleBuffered<Ring<fp32>>>;
    using Both = DoubleBuffered<Bucketed<MultiRing<2, bf16>, 128>>;
    return {{"Bucketed<Ring<fp16>, 64>", trial<Bucketed<Ring<fp16>, 64>>},
            {"DoubleBuffered<Ring<fp32>>", trial<DoubleBuffered<Ring<fp32>>>},
            {"DoubleBuffered<DoubleBuffered<Ring<fp32>>>", trial<Twice>},
            {"DoubleBuffered<Bucketed<MultiRing<2, bf16>, 128>>", trial<Both>}};
}

}  // namespace gx::sim::fuzz
