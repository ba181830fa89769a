// Which graphs the GPUs take, and with which engines: what libcudnn returned for a V100 (9.10.2)
// and an H100 (9.19), described by CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR. ../contract compares it.
#include <algorithm>  // ranges

#include "contents.hpp"

namespace gx::cuda_testing {

namespace {

using Type = cudnnBackendDescriptorType_t;

/// A graph is some pointwise operations, one other, and what follows it.
struct Shape {
    const Contents* anchor = nullptr;  ///< nullptr: pointwise operations only
    bool prologue = false, epilogue = false, statistics = false, other = false;
};

Shape shape_of(const CudnnGraph& graph) {
    Shape s;
    for (const auto& operation : graph.operations) {
        if (operation->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
            (s.anchor == nullptr ? s.prologue : s.epilogue) = true;
        else if (s.anchor == nullptr) s.anchor = operation.get();
        else if (operation->type == CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR)
            s.statistics = true;
        else s.other = true;
    }
    return s;
}

struct PatternRule {
    Type anchor;
    bool prologue, epilogue, statistics;
    int least_sm;
};
// clang-format off
constexpr PatternRule patterns[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,         false, false, false, 70},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,         false, true,  false, 70},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,         false, false, true,  80},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,         true,  false, false, 80},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,         true,  false, true,  80},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,   false, false, false, 70},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,   false, true,  false, 70},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, false, false, false, 70},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, false, true,  false, 70},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, true,  false, false, 80},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,                      false, false, false, 70},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,                      false, true,  false, 70},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,                   false, false, false, 70},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,                   true,  false, false, 70},
    {CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR,                false, false, false, 70},
    {CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR,                false, false, false, 70},
    {CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR,      false, false, false, 70},
    {CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR,                false, false, false, 80},
    {CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR,                false, true,  false, 80},
    {CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR,               false, false, false, 80},
};
// clang-format on

bool is_convolution(Type type) {
    return type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
           type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
           type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
}
bool is_product(const Contents* anchor) {
    return anchor != nullptr && (is_convolution(anchor->type) ||
                                 anchor->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
}

/// Tensors in memory of a convolution are of one type: dw in fp32 of halves is refused.
std::string flaw_of_convolution(const Contents& conv, bool epilogue, int sm) {
    const OperationTensors tensors = tensors_of(conv);
    const TensorInfo first = tensor_info(*conv.part(tensors.reads[0]));
    for (const auto& list : {tensors.reads, tensors.writes})
        for (const Attribute a : list) {
            const TensorInfo t = tensor_info(*conv.part(a));
            if (t.dims.size() != 4)
                return "convolutions of this double have two spatial dimensions";
            if (!t.is_virtual && t.type != first.type) return "a convolution of mixed types";
        }
    if (conv.type != CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR || !epilogue ||
        !is_half(first.type))
        return "";
    const TensorInfo x = tensor_info(*conv.part(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X)),
                     dw = tensor_info(*conv.part(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW));
    return x.dims[1] != dw.dims[1] || x.dims[1] % 4 != 0 || (sm < 80 && dw.dims[0] % 4 != 0)
               ? "a weight gradient with an epilogue wants one group and channels in fours"
               : "";
}

/// Before Ampere, matrices of halves have rows of 16 bytes, and fp32 has no engine.
std::string flaw_of_matmul(const Contents& matmul, int sm) {
    if (sm >= 80) return "";
    for (const Attribute a : {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC,
                              CUDNN_ATTR_OPERATION_MATMUL_CDESC}) {
        const TensorInfo t = tensor_info(*matmul.part(a));
        const std::size_t rank = t.dims.size();
        const std::int64_t row = t.strides[rank - 1] == 1 ? t.dims[rank - 1] : t.dims[rank - 2];
        if (t.type == CUDNN_DATA_FLOAT && !t.is_virtual)
            return "a product of fp32 matrices before sm_80";
        if (is_half(t.type) && row % 8 != 0)
            return "a matrix of halves with rows of " + std::to_string(row) + " before sm_80";
    }
    return "";
}

std::string flaw_of_reduction(const Contents& reduction) {
    const TensorInfo x = tensor_info(*reduction.part(CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
    return x.dims.size() == 4 ? "" : "a reduction of rank " + std::to_string(x.dims.size());
}

/// Both versions crash in their heuristics.
std::string flaw_of_resample(const Contents& resample) {
    const bool by_x = resample.type == CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR &&
                      resample.has(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_XDESC);
    return by_x ? std::string(crash_of_resample) : "";
}

}  // namespace

std::string unsupported(const CudnnGraph& graph, int sm) {
    for (const auto& [uid, tensor] : graph.tensors)
        if (tensor.type == CUDNN_DATA_BFLOAT16 && sm < 80) return "bf16 before sm_80";
    const Shape s = shape_of(graph);
    if (s.anchor == nullptr) return "";
    const auto* const rule = std::ranges::find_if(patterns, [&](const PatternRule& r) {
        return r.anchor == s.anchor->type && r.prologue == s.prologue && r.epilogue == s.epilogue &&
               r.statistics == s.statistics;
    });
    if (rule == std::ranges::end(patterns) || s.other) return "no engine for " + pattern_of(graph);
    if (rule->least_sm > sm)
        return pattern_of(graph) + " before sm_" + std::to_string(rule->least_sm);
    if (is_convolution(s.anchor->type)) return flaw_of_convolution(*s.anchor, s.epilogue, sm);
    switch (s.anchor->type) {
        case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: return flaw_of_matmul(*s.anchor, sm);
        case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: return flaw_of_reduction(*s.anchor);
        case CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR: return flaw_of_resample(*s.anchor);
        default: return "";
    }
}

// Matrix products in fp32 have engines of TF32 only from Ampere on; convolutions one without, too.
// A workspace need not be a multiple of anything, and an engine that is not preferred wants more.
std::vector<CudnnPlan> engines_of(const std::shared_ptr<const CudnnGraph>& graph, int sm) {
    const Shape s = shape_of(*graph);
    const auto with = [&](CudnnEngine engine, std::int64_t bytes) {
        return CudnnPlan{.graph = graph, .engine = engine, .workspace_bytes = bytes};
    };
    if (!is_product(s.anchor)) return {with(CudnnEngine::plain, 0)};
    const TensorInfo first = tensor_info(*s.anchor->part(tensors_of(*s.anchor).reads[0]));
    const bool halves = is_half(first.type);
    const bool has_tf32 = sm >= 80 && first.type == CUDNN_DATA_FLOAT;
    const bool is_matmul = s.anchor->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
    std::vector<CudnnPlan> plans;
    if (!is_matmul) plans.push_back(with(CudnnEngine::nondeterministic, 1031));
    if (has_tf32) plans.push_back(with(CudnnEngine::tf32, 0));
    if (halves && !is_matmul) plans.push_back(with(CudnnEngine::reduced, 0));
    const bool fused = s.prologue || s.statistics;  // compiled at run time
    if (!has_tf32 || !(is_matmul || fused)) plans.push_back(with(CudnnEngine::plain, 131));
    return plans;
}

}  // namespace gx::cuda_testing
