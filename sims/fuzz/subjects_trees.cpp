// Collectives that are no rings, and a star whose messages are all posted at once.
#include <fuzz/burst.hpp>
#include <fuzz/subjects.hpp>
#include <fuzz/trial.hpp>

#include <gx/reducer/double_buffered.hpp>   // DoubleBuffered
#include <gx/reducer/double_tree.hpp>       // DoubleTree
#include <gx/reducer/halving_doubling.hpp>  // HalvingDoubling
#include <gx/reducer/hierarchical.hpp>      // Hierarchical
#include <gx/reducer/tree.hpp>              // Tree

namespace gx::sim::fuzz {

std::vector<Subject> tree_subjects() {
    return {{"Tree<fp32>", trial<Tree<fp32>>},
            {"DoubleTree<3, fp16>", trial<DoubleTree<3, fp16>>},
            {"HalvingDoubling<fp16>", trial<HalvingDoubling<fp16>>},
            {"Hierarchical<fp32>", trial<Hierarchical<fp32>>},
            {"DoubleBuffered<Hierarchical<bf16>>", trial<DoubleBuffered<Hierarchical<bf16>>>},
            {"Burst", trial<Burst>}};
}

}  // namespace gx::sim::fuzz
