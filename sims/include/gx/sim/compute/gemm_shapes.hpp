// gemm_shapes: GEMM shapes of an operation; tensor-core and Winograd eligibility.
#pragma once

#include <gx/core/decl.hpp>              // GX_DECL
#include <gx/model/graph.hpp>            // Graph, Op
#include <gx/sim/compute/gemm_time.hpp>  // Gemm

namespace gx {
struct OpCost;  // gx/model/cost.hpp
}

namespace gx::sim {

/// GEMM shapes of one image; count = 0 for products that an operation does not have.
struct GemmShapes {
    Gemm forward{.count = 0}, data{.count = 0}, weight{.count = 0};
    Gemm other{.count = 0};  ///< attention's second input
};

/// GEMM shapes of an operation. A convolution is a GEMM over its windows, one for each group:
/// (pixels out) x (channels out) over a depth of window times channels in. The gradient of its data
/// has a row for each pixel in, that of its weight sums over all pixels of the batch. Attention is
/// a GEMM for each head.
[[nodiscard]] GX_DECL GemmShapes gemm_shapes(const Graph& graph, const Op& op, const OpCost& c);

/// Whether channels in and out of a group are multiples of `multiple`.
[[nodiscard]] GX_DECL bool suits_tensor_cores(const Graph& graph, const Op& op, int multiple);

/// Whether a library computes a convolution by Winograd's F(2x2, 3x3).
/// Source: Lavin, Gray 2015, arXiv:1509.09308: 2.25 times fewer products at best.
[[nodiscard]] GX_DECL bool suits_winograd(const Op& op);

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/compute/impl/gemm_shapes.ipp>
#endif
