// Contents: what a backend descriptor holds, and the graph that finalized operations make.
#pragma once

#include <cudnn.h>

#include <cstddef>      // byte
#include <cstdint>      // int64_t
#include <cstring>      // memcpy
#include <map>          // attributes
#include <memory>       // shared_ptr
#include <string>       // sentences
#include <string_view>  // sentences
#include <vector>       // values

namespace gx::cuda_testing {

using Attribute = cudnnBackendAttributeName_t;
struct Contents;
struct CudnnPlan;

/// The elements of one attribute, as they were set.
struct AttributeValue {
    cudnnBackendAttributeType_t type{};
    std::int64_t count = 0;
    std::vector<std::byte> bytes{};
    std::vector<std::shared_ptr<const Contents>> parts{};  ///< of descriptors
};

/// What a descriptor holds. Setting a descriptor as an attribute keeps the contents that it has
/// then: later changes, and its end, do not matter.
struct Contents {
    cudnnBackendDescriptorType_t type{};
    bool finalized = false;
    std::map<int, AttributeValue> values{};
    std::shared_ptr<const CudnnPlan> plan{};  ///< of engines, their configurations and plans

    [[nodiscard]] bool has(Attribute a) const { return values.contains(a); }
    [[nodiscard]] const Contents* part(Attribute a) const {
        const auto at = values.find(a);
        return at == values.end() || at->second.parts.empty() ? nullptr : at->second.parts[0].get();
    }
    template <class T>
    [[nodiscard]] std::vector<T> all(Attribute a) const {
        std::vector<T> list;
        const auto at = values.find(a);
        if (at == values.end()) return list;
        for (std::int64_t i = 0; i < at->second.count; ++i) {
            T element;
            std::memcpy(&element, &at->second.bytes[static_cast<std::size_t>(i) * sizeof(T)],
                        sizeof(T));
            list.push_back(element);
        }
        return list;
    }
    template <class T>
    [[nodiscard]] T one(Attribute a, T otherwise) const {
        const std::vector<T> list = all<T>(a);
        return list.empty() ? otherwise : list[0];
    }
    [[nodiscard]] std::int64_t integer(Attribute a, std::int64_t otherwise = 0) const {
        return one<std::int64_t>(a, otherwise);
    }
    [[nodiscard]] std::vector<std::int64_t> integers(Attribute a) const {
        return all<std::int64_t>(a);
    }
    /// Of CUDNN_TYPE_FLOAT or CUDNN_TYPE_DOUBLE.
    [[nodiscard]] float number(Attribute a, float otherwise) const {
        const auto at = values.find(a);
        if (at == values.end()) return otherwise;
        return at->second.type == CUDNN_TYPE_DOUBLE ? static_cast<float>(one<double>(a, 0))
                                                    : one<float>(a, 0);
    }
    /// Of CUDNN_TYPE_FRACTION with denominators of 1.
    [[nodiscard]] std::vector<std::int64_t> whole_numbers(Attribute a) const;
};

/// A tensor of a graph.
struct TensorInfo {
    std::int64_t uid = 0;
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    std::vector<std::int64_t> dims{}, strides{};
    std::int64_t alignment = 1;
    bool is_virtual = false, by_value = false;

    bool operator==(const TensorInfo&) const = default;
    [[nodiscard]] std::int64_t elements() const {
        std::int64_t n = 1;
        for (const std::int64_t d : dims) n *= d;
        return n;
    }
    /// Of memory from the first to the last element.
    [[nodiscard]] std::int64_t bytes() const;
};
[[nodiscard]] TensorInfo tensor_info(const Contents& tensor);
[[nodiscard]] std::int64_t size_of(cudnnDataType_t type);
[[nodiscard]] bool is_half(cudnnDataType_t type);
/// A number of a tensor in memory, or of a scalar by value.
[[nodiscard]] float load(const std::byte* at, cudnnDataType_t type);

/// Tensor attributes of an operation that are set: which it reads, and which it writes.
struct OperationTensors {
    std::vector<Attribute> reads{}, writes{};
};
[[nodiscard]] bool is_operation(cudnnBackendDescriptorType_t type);
[[nodiscard]] OperationTensors tensors_of(const Contents& operation);

/// Operations in an order in which each comes behind those whose results it reads.
struct CudnnGraph {
    std::vector<std::shared_ptr<const Contents>> operations{};
    std::map<std::int64_t, TensorInfo> tensors{};   ///< by unique id
    std::vector<std::int64_t> inputs{}, outputs{};  ///< in memory
};
/// A status and sentence that are not success, or a misuse.
struct Refusal {
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    std::string sentence{};
};
Refusal make_graph(const std::vector<std::shared_ptr<const Contents>>& operations,
                   CudnnGraph& graph);

/// "CONVOLUTION_FORWARD, POINTWISE 0": the operations in order.
[[nodiscard]] std::string pattern_of(const CudnnGraph& graph);

/// How a graph is computed by an engine of the double.
enum class CudnnEngine : unsigned char {
    plain,             ///< sums in the stated order; tensor cores for halves
    nondeterministic,  ///< order drawn at each execution
    tf32,              ///< inputs of products rounded to 11 bits
    reduced            ///< sums of products of halves rounded at each addition
};
struct CudnnPlan {
    std::shared_ptr<const CudnnGraph> graph{};
    CudnnEngine engine = CudnnEngine::plain;
    std::int64_t workspace_bytes = 0;
    std::int64_t index = 0;  ///< of the engine, among those of the graph
    int device = -1;         ///< of the handle that it was made with; -1: none
};

/// Operations as text, and back; the text is of the double's own, and holds all that was set.
[[nodiscard]] std::string text_of(const CudnnGraph& graph);
/// Nothing where the text is none of text_of().
[[nodiscard]] std::vector<std::shared_ptr<const Contents>> operations_in(std::string_view text);

/// What unsupported() returns where the library's heuristics crash.
inline constexpr std::string_view crash_of_resample = "pooling backward from x and y";
/// "" where engines of the GPU take the graph, else why not.
[[nodiscard]] std::string unsupported(const CudnnGraph& graph, int sm);
/// The engines of a supported graph, the preferred first.
[[nodiscard]] std::vector<CudnnPlan> engines_of(const std::shared_ptr<const CudnnGraph>& graph,
                                                int sm);

/// Checks a descriptor for cudnnBackendFinalize.
Refusal check_contents(Contents& contents);

/// Computes the plan on memory. `pointers` by unique id; called as work of a stream.
void compute(const CudnnPlan& plan, const std::map<std::int64_t, void*>& pointers,
             const std::map<std::int64_t, float>& by_value, void* workspace, bool reversed);

}  // namespace gx::cuda_testing
