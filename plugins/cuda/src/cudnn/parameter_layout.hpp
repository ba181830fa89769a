// ParameterLayout: where the parameters of a graph lie in the flat vectors of a GPU.
#pragma once

#include <cstddef>  // size_t
#include <cstdint>  // int64_t
#include <span>     // vectors
#include <vector>   // slices

#include <gx/core/device.hpp>   // ParameterSlice
#include <gx/core/element.hpp>  // ElementType
#include <gx/model/graph.hpp>   // Graph

namespace gx::cuda::detail {

/// Weights of convolutions as (out, H, W, in / groups), all else as in the canonical layout; each
/// parameter begins at 16 bytes of the element of the working copy, as cuDNN's tensors do, behind
/// zeros.
class ParameterLayout {
public:
    ParameterLayout(const Graph& graph, ElementType compute);

    /// Of each parameter, in the order of Graph::parameters; their counts hold the padding.
    [[nodiscard]] std::span<const ParameterSlice> slices() const { return slices_; }
    /// Elements of a flat vector.
    [[nodiscard]] std::size_t elements() const { return elements_; }

    /// Errors: vectors of other lengths break the contract.
    void to_canonical(std::span<const float> mine, std::span<float> canonical) const;
    /// Writes zeros to the padding.
    void from_canonical(std::span<const float> canonical, std::span<float> mine) const;

private:
    template <class Visit>
    void for_each(std::size_t canonical, std::size_t mine, Visit visit) const;

    std::vector<Parameter> parameters_;
    std::vector<ParameterSlice> slices_{};
    std::size_t elements_ = 0;
};

}  // namespace gx::cuda::detail
