// Dnn: cuDNN's plans for the layers of a graph, made once for each shape.
#pragma once

#include <cstddef>           // byte
#include <cstdint>           // int64_t
#include <initializer_list>  // pointers
#include <map>               // plans by what they compute
#include <memory>            // unique_ptr, shared_ptr
#include <optional>          // a plan
#include <string>            // names
#include <utility>           // pair

#include <cudnn.h>

#include <gx/core/element.hpp>  // ElementType
#include <gx/model/graph.hpp>   // Graph, Op

#include "plan_cache.hpp"

namespace gx::cuda {

struct SpaceToDepth;

namespace detail {
struct DestroyDescriptor {
    void operator()(void* descriptor) const { (void)cudnnBackendDestroyDescriptor(descriptor); }
};
struct DestroyDnnHandle {
    void operator()(cudnnContext* handle) const { (void)cudnnDestroy(handle); }
};
class DnnGraph;
}  // namespace detail

/// An owned descriptor of the backend API.
using DnnDescriptor = std::unique_ptr<void, detail::DestroyDescriptor>;

struct DnnOptions {
    ElementType compute = ElementType::fp32;  ///< of activations, weights and their gradients
    /// Products of fp32 on tensor cores, of inputs rounded to 11 bits: cuDNN's default, not gx's.
    bool tf32 = false;
    /// Winograd's and Fourier's algorithms: faster, with larger errors than a sum's.
    bool transforms = false;
    /// No engine is marked nondeterministic.
    bool deterministic = true;
    /// Weight gradients of fp16 and bf16 are stored in fp32 where cuDNN has an engine for it: one
    /// group and, on all GPUs, inputs and filters in fours.
    bool fp32_weight_gradients = true;
};

/// A finalized execution plan of one graph of operations, under the name of one layer; layers of
/// equal shape share the plan.
class DnnPlan {
public:
    /// Queues the plan on the stream of `handle`.
    /// Shapes: pointers in the order that DnnLayer states, in device memory, each aligned to
    ///         alignment_bytes; workspace of workspace_bytes(), of no other use until it is done.
    /// Errors: gx::Error with the layer's name and cuDNN's words. A count of pointers that does not
    ///         fit, or a null workspace where one is needed, breaks the contract.
    /// Cost:   the host does not wait; no device memory is allocated; it may be captured.
    void run(cudnnHandle_t handle, std::initializer_list<const void*> pointers,
             void* workspace) const;

    [[nodiscard]] std::int64_t workspace_bytes() const { return workspace_bytes_; }
    /// As in "conv2d 'stem', forward".
    [[nodiscard]] const std::string& name() const { return name_; }
    /// Of the backend API.
    [[nodiscard]] cudnnBackendDescriptor_t descriptor() const { return plan_.get(); }

    static constexpr std::size_t alignment_bytes = 16;

private:
    friend class Dnn;
    [[nodiscard]] cudnnStatus_t execute(cudnnHandle_t handle,
                                        std::initializer_list<const void*> pointers,
                                        void* workspace) const;
    std::shared_ptr<void> plan_{};
    std::int64_t workspace_bytes_ = 0;
    std::size_t tensors_ = 0;
    std::string name_{};
};

/// The plans of one operation; nullptr for what cuDNN does not compute here. Pointers of run():
///
///     kind           forward               input_gradient   weight_gradient   bias_gradient
///     conv2d,linear  x, weight, y          dy, weight, dx   x, dy, dweight    dy, dbias
///     with a bias    x, weight, bias, y
///     with sums      x, weight, y, sums of y, sums of y * y
///     max_pool       x, y, index           dy, index, dx
///
/// Shapes: activations (N, C, H, W) in memory as (N, H, W, C); weights (out, in / groups, H, W) as
///         (out, H, W, in / groups); biases (out); index as y, in int8: the place in its window.
///         sums (out), of all images of a plan.
/// Units:  all in DnnOptions::compute, but dbias and sums, which are fp32, and dweight where
///         weight_gradient_type says so.
/// Order:  each plan writes its result whole, sums in fp32 and rounds once. With
///         DnnOptions::deterministic equal inputs give equal bits on one GPU and version of cuDNN.
struct DnnLayer {
    const DnnPlan* forward = nullptr;
    const DnnPlan* forward_with_sums = nullptr;  ///< of a convolution that a batch norm reads
    const DnnPlan* input_gradient = nullptr;
    const DnnPlan* weight_gradient = nullptr;
    const DnnPlan* bias_gradient = nullptr;
    ElementType weight_gradient_type = ElementType::fp32;
};

/// cuDNN on one GPU: a handle, and plans that layers of equal shape share.
///
///     Dnn dnn(stream, {.compute = ElementType::fp16});
///     const DnnLayer conv = dnn.layer(graph, op, batch);
///     void* workspace = arena(dnn.workspace_bytes());          // once all layers are planned
///     conv.forward->run(dnn.handle(), {x, weight, y}, workspace);
///
/// A linear layer is a convolution of 1 x 1 pixels: cuDNN's matrix products in fp32 have no engine
/// on a V100 and none but TF32's on an H100, and on a V100 none where rows of halves are not 16
/// bytes. Batch norms, average pools, ReLUs, additions, losses, dropout and flatten are not
/// cuDNN's.
///
/// Errors: gx::Error where cuDNN has no plan, with the layer, what is computed, GPU, version and
///         the last refusal.
/// Cost:   2 ms a shape where an engine is precompiled, up to 2 s where it is compiled; of a plan
///         that an earlier run has kept, 0.1 to 7 ms.
class Dnn {
public:
    /// For the current GPU and its stream. Errors: gx::Error where cuDNN does not start, or is of
    /// another major version than its headers were.
    Dnn(cudaStream_t stream, DnnOptions options);
    /// Plans without a GPU, for the one that this JSON describes (the attribute
    /// CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION): what it supports, and with which workspace.
    Dnn(const std::string& device_json, DnnOptions options);

    /// What a layer is for.
    struct Wants {
        bool input_gradient = true;  ///< a graph's input needs none
        /// forward_with_sums, where cuDNN has an engine for it: fp16 from Ampere on, no bias,
        /// channels in eights, and 32 or more read. On an H100 sums in bf16 take three times as
        /// long as a convolution, and those of 3 and of 16 channels longer than the moments'
        /// kernel.
        bool sums = false;
    };
    /// Plans of an operation for `batch` images; what was planned before is found again.
    [[nodiscard]] DnnLayer layer(const Graph& graph, const Op& op, int batch, const Wants& wants);
    [[nodiscard]] DnnLayer layer(const Graph& graph, const Op& op, int batch,
                                 bool needs_input_gradient = true) {
        return layer(graph, op, batch, Wants{.input_gradient = needs_input_gradient});
    }
    /// Of a convolution that reads the graph's input in blocks of pixels (space_to_depth.hpp).
    /// Shapes: x, weight and dweight as `s` says. forward or weight_gradient is nullptr where cuDNN
    ///         has no plan.
    [[nodiscard]] DnnLayer convolution_of_blocks(const Graph& graph, const Op& op, int batch,
                                                 const SpaceToDepth& s);

    /// Keeps the plans that were made so far for later runs (plan_cache.hpp).
    void save_plans() { cache_.save(); }
    /// Why plans of earlier runs were not taken, or none will be kept; empty: neither.
    [[nodiscard]] const std::string& cache_warning() const { return cache_.warning(); }

    /// The most bytes that one of the plans so far needs.
    [[nodiscard]] std::int64_t workspace_bytes() const { return workspace_bytes_; }
    [[nodiscard]] cudnnHandle_t handle() const { return handle_.get(); }

private:
    friend class detail::DnnGraph;
    enum class Precision : unsigned char { pointwise, product };

    struct Product;
    [[nodiscard]] DnnLayer convolution(const Graph& graph, const Op& op, int batch,
                                       const Wants& wants);
    [[nodiscard]] DnnLayer product(const Product& p, const Wants& wants);
    [[nodiscard]] DnnLayer max_pool(const Graph& graph, const Op& op, int batch, bool input);

    /// The plan under `key`, as `name`; or the one that `make` describes. nullptr where cuDNN has
    /// none and `may_lack` is set.
    template <class Make>
    const DnnPlan* plan(const std::string& key, const std::string& name, Precision precision,
                        Make make, bool may_lack = false);
    std::optional<DnnPlan> choose(const detail::DnnGraph& graph, Precision precision,
                                  std::string& refusal);
    [[nodiscard]] std::uint64_t cache_key(const detail::DnnGraph& graph, Precision p) const;
    std::optional<DnnPlan> cached(const detail::DnnGraph& graph, Precision precision);
    void cache(const DnnPlan& plan, std::uint64_t key);
    [[nodiscard]] static DnnPlan plan_of(DnnDescriptor finalized, const detail::DnnGraph& graph);
    [[nodiscard]] static detail::PlanCache cache_of_gpu();
    [[nodiscard]] bool is_selected(const void* configuration, Precision precision) const;
    [[nodiscard]] std::string gpu() const;

    std::unique_ptr<cudnnContext, detail::DestroyDnnHandle> handle_{};
    DnnDescriptor device_{};  ///< without a handle
    DnnOptions options_;
    detail::PlanCache cache_{};
    std::map<std::string, std::optional<DnnPlan>> plans_{};           ///< by key
    std::map<std::pair<std::string, std::string>, DnnPlan> named_{};  ///< by key and name
    std::int64_t workspace_bytes_ = 0;
};

}  // namespace gx::cuda
