// What the files of compute() share: a plan's tensors, and an entry for each operation.
#pragma once

#include <cstddef>  // size_t
#include <cstdint>  // int64_t
#include <map>      // tensors by their ids
#include <vector>   // values

#include "contents.hpp"

namespace gx::cuda_testing {

using Dims = std::vector<std::int64_t>;
using Values = std::vector<float>;

/// The tensors of a plan that is executed, dense and row-major in their dimensions.
struct Tensors {
    const CudnnPlan* plan;
    const std::map<std::int64_t, void*>* pointers;
    const std::map<std::int64_t, float>* by_value;
    std::map<std::int64_t, Values> values{};
    bool reversed = false;  ///< the order of sums

    const Values& read(const Contents& operation, Attribute a);
    /// A tensor in memory is stored, and read back as it was rounded; a virtual one stays fp32.
    void write(const Contents& operation, Attribute a, Values v);
};

[[nodiscard]] Dims dims_of(const Contents& operation, Attribute a);

/// Calls visit(dense index, offset in elements). Order: row-major.
template <class Visit>
void for_each_element(const TensorInfo& t, Visit visit) {
    Dims index(t.dims.size());
    std::int64_t offset = 0;
    for (std::int64_t i = 0, n = t.elements(); i < n; ++i) {
        visit(static_cast<std::size_t>(i), offset);
        for (std::size_t d = index.size(); d-- > 0;) {
            offset += t.strides[d];
            if (++index[d] < t.dims[d]) break;
            offset -= t.dims[d] * t.strides[d];
            index[d] = 0;
        }
    }
}

// Operations, each as its descriptor states it.
void convolve(Tensors& t, const Contents& op);
void multiply(Tensors& t, const Contents& op);
void pointwise(Tensors& t, const Contents& op);
void reduce(Tensors& t, const Contents& op);
void pool(Tensors& t, const Contents& op);
void pool_backward(Tensors& t, const Contents& op);
void generate_statistics(Tensors& t, const Contents& op);
void finalize_statistics(Tensors& t, const Contents& op);
void normalize(Tensors& t, const Contents& op);
void normalize_backward(Tensors& t, const Contents& op);

}  // namespace gx::cuda_testing
