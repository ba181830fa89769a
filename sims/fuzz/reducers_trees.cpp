// Collectives that are no rings, and a star whose messages are all posted at once.
#include <fuzz/burst.hpp>
#include <fuzz/reducers.hpp>
#include <fuzz/trial.hpp>

#include <gx/halving_doubling/reducer.hpp>    // HalvingDoubling
#include <gx/hierarchical/reducer.hpp>        // Hierarchical
#include <gx/recursive_doubling/reducer.hpp>  // RecursiveDoubling
#include <gx/reducer/double_buffered.hpp>     // DoubleBuffered
#include <gx/reducer/ring.hpp>                // Ring
#include <gx/trees/double_tree.hpp>           // DoubleTree
#include <gx/trees/tree.hpp>                  // Tree

namespace gx::sim::fuzz {

std::vector<FuzzedReducer> tree_reducers() {
    return {{"Tree<fp32>", trial<Tree<fp32>>},
            {"DoubleTree<3, fp16>", trial<DoubleTree<3, fp16>>},
            {"HalvingDoubling<fp16>", trial<HalvingDoubling<fp16>>},
            {"Hierarchical<fp32>", trial<Hierarchical<fp32>>},
            {"DoubleBuffered<Hierarchical<bf16>>", trial<DoubleBuffered<Hierarchical<bf16>>>},
            {"Burst", trial<Burst>}};
}
std::vector<FuzzedReducer> doubling_reducers() {
    return {{"RecursiveDoubling<fp32>", trial<RecursiveDoubling<fp32>>}};
}
std::vector<FuzzedReducer> level_reducers() {
    return {{"Hierarchical<Ring<fp32>, Ring<fp16>>", trial<Hierarchical<Ring<fp32>, Ring<fp16>>>}};
}

}  // namespace gx::sim::fuzz
