// Reducers that own the update: a shard each, or local steps with a mean now and then.
#include <fuzz/reducers.hpp>
#include <fuzz/trial.hpp>

#include <gx/local_sgd/reducer.hpp>   // LocalSgd
#include <gx/reducer/bucketed.hpp>    // Bucketed
#include <gx/reducer/multi_ring.hpp>  // MultiRing
#include <gx/reducer/ring.hpp>        // Ring
#include <gx/sharded/reducer.hpp>     // Sharded

namespace gx::sim::fuzz {

std::vector<FuzzedReducer> owner_reducers() {
    return {{"Sharded<Ring<fp32>>", trial<Sharded<Ring<fp32>>>},
            {"Sharded<Bucketed<MultiRing<3, bf16>, 512>>",
             trial<Sharded<Bucketed<MultiRing<3, bf16>, 512>>>},
            {"LocalSgd<Ring<fp32>, 1>", trial<LocalSgd<Ring<fp32>, 1>, Promise{.period = 1}>},
            {"LocalSgd<MultiRing<2, fp16>, 3>",
             trial<LocalSgd<MultiRing<2, fp16>, 3>, Promise{.period = 3}>}};
}

}  // namespace gx::sim::fuzz
