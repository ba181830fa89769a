// End of a program whose network does not fit its image; vectors of graphs, once.
#pragma once

#include <gx/model/graph.hpp>  // the declarations

namespace gx::detail::graph {

GX_DECL void stop(const GraphTrouble& trouble) {
    gx::detail::broken_contract("a network fits its image", trouble.text().view());
}

}  // namespace gx::detail::graph

#if defined(GX_COMPILED)
template class std::vector<gx::ImageShape>;
template class std::vector<gx::Op>;
template class std::vector<gx::Parameter>;
template class std::vector<gx::Statistic>;
#endif
