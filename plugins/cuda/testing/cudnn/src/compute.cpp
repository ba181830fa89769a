// What each operation computes: in fp32, in the order that is stated, rounded where a tensor is
// stored. Tensors are held dense, row-major in their dimensions.
#include <algorithm>  // clamp
#include <cmath>      // nearbyint
#include <cstring>    // memcpy
#include <limits>     // numeric_limits
#include <utility>    // move

#include <gx/core/element.hpp>        // fp16, bf16
#include <gx/cuda_testing/hooks.hpp>  // report_access, misuse

#include "compute.hpp"

namespace gx::cuda_testing {

float load(const std::byte* at, cudnnDataType_t type) {
    const auto as = [at]<class T>(T value) {
        std::memcpy(&value, at, sizeof value);
        return value;
    };
    switch (type) {
        case CUDNN_DATA_HALF: return fp16::decode(as(fp16::storage{}));
        case CUDNN_DATA_BFLOAT16: return bf16::decode(as(bf16::storage{}));
        case CUDNN_DATA_INT8: return static_cast<float>(as(std::int8_t{}));
        case CUDNN_DATA_UINT8: return static_cast<float>(as(std::uint8_t{}));
        case CUDNN_DATA_INT32: return static_cast<float>(as(std::int32_t{}));
        case CUDNN_DATA_INT64: return static_cast<float>(as(std::int64_t{}));
        case CUDNN_DATA_DOUBLE: return static_cast<float>(as(double{}));
        case CUDNN_DATA_FLOAT: return as(float{});
        default: misuse("data type " + std::to_string(type) + " is not in this double.");
    }
}

namespace {

/// As CUDA's cvt.rni.sat: to nearest, ties to even; NaN is 0.
template <class T>
T saturated(float value) {
    if (value != value) return 0;
    using Limits = std::numeric_limits<T>;
    return static_cast<T>(
        std::clamp(std::nearbyint(double{value}), double{Limits::min()}, double{Limits::max()}));
}

void store(std::byte* at, cudnnDataType_t type, float value) {
    const auto as = [at](auto stored) { std::memcpy(at, &stored, sizeof stored); };
    switch (type) {
        case CUDNN_DATA_HALF: return as(fp16::encode(value));
        case CUDNN_DATA_BFLOAT16: return as(bf16::encode(value));
        case CUDNN_DATA_INT8: return as(saturated<std::int8_t>(value));
        case CUDNN_DATA_UINT8: return as(saturated<std::uint8_t>(value));
        case CUDNN_DATA_INT32: return as(saturated<std::int32_t>(value));
        case CUDNN_DATA_FLOAT: return as(value);
        default: misuse("data type " + std::to_string(type) + " is not in this double.");
    }
}

void run(Tensors& t, const Contents& op) {
    switch (op.type) {
        case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: return pointwise(t, op);
        case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: return multiply(t, op);
        case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: return reduce(t, op);
        case CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR: return pool(t, op);
        case CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR: return pool_backward(t, op);
        case CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR: return generate_statistics(t, op);
        case CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR:
            return finalize_statistics(t, op);
        case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR: return normalize(t, op);
        case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR: return normalize_backward(t, op);
        default: return convolve(t, op);
    }
}

/// Engines write their workspace before they read it: what was there does not matter.
void use_workspace(void* workspace, std::int64_t bytes) {
    if (bytes == 0) return;
    report_access(workspace, static_cast<std::size_t>(bytes), true, "workspace");
    std::memset(workspace, 0xff, static_cast<std::size_t>(bytes));
}

}  // namespace

// ---- Memory -----------------------------------------------------------------------------------

const Values& Tensors::read(const Contents& operation, Attribute a) {
    const TensorInfo t = tensor_info(*operation.part(a));
    const auto [at, is_new] = values.try_emplace(t.uid);
    if (!is_new) return at->second;
    Values& v = at->second;
    v.resize(static_cast<std::size_t>(t.elements()));
    if (t.by_value) {
        v[0] = by_value->at(t.uid);
        return v;
    }
    const auto* const from = static_cast<const std::byte*>(pointers->at(t.uid));
    for_each_element(t, [&](std::size_t i, std::int64_t offset) {
        v[i] = load(from + offset * size_of(t.type), t.type);
    });
    return v;
}

void Tensors::write(const Contents& operation, Attribute a, Values v) {
    if (!operation.has(a)) return;
    const TensorInfo t = tensor_info(*operation.part(a));
    if (!t.is_virtual) {
        auto* const to = static_cast<std::byte*>(pointers->at(t.uid));
        for_each_element(t, [&](std::size_t i, std::int64_t offset) {
            store(to + offset * size_of(t.type), t.type, v[i]);
            v[i] = load(to + offset * size_of(t.type), t.type);
        });
    }
    values[t.uid] = std::move(v);
}

Dims dims_of(const Contents& operation, Attribute a) {
    return tensor_info(*operation.part(a)).dims;
}

// ---- A plan -------------------------------------------------------------------------------------

void compute(const CudnnPlan& plan, const std::map<std::int64_t, void*>& pointers,
             const std::map<std::int64_t, float>& by_value, void* workspace, bool reversed) {
    const CudnnGraph& graph = *plan.graph;
    for (const bool writes : {false, true})
        for (const std::int64_t uid : writes ? graph.outputs : graph.inputs) {
            const TensorInfo& t = graph.tensors.at(uid);
            if (!t.by_value)
                report_access(pointers.at(uid), static_cast<std::size_t>(t.bytes()), writes,
                              "cuDNN");
        }
    use_workspace(workspace, plan.workspace_bytes);
    Tensors tensors{
        .plan = &plan, .pointers = &pointers, .by_value = &by_value, .reversed = reversed};
    for (const auto& operation : graph.operations) run(tensors, *operation);
}

}  // namespace gx::cuda_testing
