// Ring and MultiRing in each element.
#include <fuzz/reducers.hpp>
#include <fuzz/trial.hpp>

#include <gx/reducer/multi_ring.hpp>  // MultiRing
#include <gx/reducer/ring.hpp>        // Ring

namespace gx::sim::fuzz {

std::vector<FuzzedReducer> ring_reducers() {
    return {{"Ring<fp32>", trial<Ring<fp32>>},
            {"Ring<fp16>", trial<Ring<fp16>>},
            {"Ring<bf16>", trial<Ring<bf16>>},
            {"MultiRing<2, fp16>", trial<MultiRing<2, fp16>>},
            {"MultiRing<4, fp32>", trial<MultiRing<4, fp32>>}};
}

}  // namespace gx::sim::fuzz
