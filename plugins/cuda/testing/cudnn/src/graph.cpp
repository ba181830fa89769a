// The operation graph: its order, its tensors, and its pattern.
#include <algorithm>  // ranges
#include <cstddef>    // size_t

#include "attributes.hpp"
#include "contents.hpp"

namespace gx::cuda_testing {

namespace {

bool is_result(Attribute a) {
    switch (a) {
        case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y:
        case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX:
        case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW:
        case CUDNN_ATTR_OPERATION_POINTWISE_YDESC:
        case CUDNN_ATTR_OPERATION_POINTWISE_DXDESC:
        case CUDNN_ATTR_OPERATION_MATMUL_CDESC:
        case CUDNN_ATTR_OPERATION_REDUCTION_YDESC:
        case CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC:
        case CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC:
        case CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC:
        case CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC:
        case CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC:
        case CUDNN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC:
        case CUDNN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_VAR_DESC:
        case CUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_MEAN_DESC:
        case CUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_INV_STD_DESC:
        case CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_SCALE_DESC:
        case CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_BIAS_DESC:
        case CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC:
        case CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC:
        case CUDNN_ATTR_OPERATION_NORM_FWD_YDESC:
        case CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC:
        case CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC:
        case CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC: return true;
        default: return false;
    }
}

std::string uid_text(std::int64_t uid) { return "the tensor of unique id " + std::to_string(uid); }

using Operations = std::vector<std::shared_ptr<const Contents>>;

/// Adds the operation's tensors; the same unique id twice must be the same tensor.
Refusal add_tensors(const Contents& operation, CudnnGraph& graph,
                    std::map<std::int64_t, int>& writers) {
    const OperationTensors tensors = tensors_of(operation);
    for (const bool writes : {false, true})
        for (const Attribute a : writes ? tensors.writes : tensors.reads) {
            const TensorInfo t = tensor_info(*operation.part(a));
            const auto [at, is_new] = graph.tensors.emplace(t.uid, t);
            if (!is_new && at->second != t)
                return {CUDNN_STATUS_SUCCESS,  // libcudnn takes it
                        "unique id " + std::to_string(t.uid) + " names two tensors that differ."};
            if (writes && ++writers[t.uid] > 1)
                return {CUDNN_STATUS_BAD_PARAM, uid_text(t.uid) + " is written twice."};
        }
    return {};
}

/// Kahn's algorithm, in the given order where it is free. Fewer than all where there is a cycle.
Operations in_order(const Operations& given, const std::map<std::int64_t, int>& writers) {
    Operations ordered;
    std::vector<bool> taken(given.size());
    std::map<std::int64_t, bool> done;
    for (bool progress = true; progress;) {
        progress = false;
        for (std::size_t i = 0; i < given.size(); ++i) {
            if (taken[i]) continue;
            const OperationTensors tensors = tensors_of(*given[i]);
            const auto uid = [&](Attribute a) { return tensor_info(*given[i]->part(a)).uid; };
            if (!std::ranges::all_of(tensors.reads, [&](Attribute a) {
                    return !writers.contains(uid(a)) || done[uid(a)];
                }))
                continue;
            for (const Attribute a : tensors.writes) done[uid(a)] = true;
            ordered.push_back(given[i]);
            taken[i] = progress = true;
        }
    }
    return ordered;
}

}  // namespace

OperationTensors tensors_of(const Contents& operation) {
    OperationTensors tensors;
    const bool is_inference = operation.type == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR &&
                              operation.one(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE,
                                            CUDNN_NORM_FWD_TRAINING) == CUDNN_NORM_FWD_INFERENCE;
    const bool is_training =
        operation.type == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR && !is_inference;
    for (const auto& [name, value] : operation.values) {
        const auto a = static_cast<Attribute>(name);
        if (value.parts.empty() || value.parts[0]->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR)
            continue;
        const bool saved = a == CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC ||
                           a == CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC;
        const bool writes = is_result(a) || (saved && is_training);
        (writes ? tensors.writes : tensors.reads).push_back(a);
    }
    return tensors;
}

Refusal make_graph(const Operations& operations, CudnnGraph& graph) {
    std::map<std::int64_t, int> writers;
    for (const auto& operation : operations)
        if (const Refusal r = add_tensors(*operation, graph, writers); !r.sentence.empty())
            return r;
    graph.operations = in_order(operations, writers);
    if (graph.operations.size() != operations.size())
        return {CUDNN_STATUS_BAD_PARAM, "the operations form a cycle."};
    std::map<std::int64_t, int> readers;
    for (const auto& operation : operations)
        for (const Attribute a : tensors_of(*operation).reads)
            ++readers[tensor_info(*operation->part(a)).uid];
    for (const auto& [uid, tensor] : graph.tensors) {
        const bool written = writers.contains(uid);
        if (tensor.is_virtual && (!written || !readers.contains(uid)))
            return {CUDNN_STATUS_SUCCESS,  // libcudnn takes it
                    "virtual: " + uid_text(uid) +
                        (written ? " is read by no operation." : " is written by no operation.")};
        if (tensor.is_virtual) continue;
        (written ? graph.outputs : graph.inputs).push_back(uid);
    }
    return {};
}

std::string pattern_of(const CudnnGraph& graph) {
    std::string pattern;
    for (const auto& operation : graph.operations) {
        std::string name = name_of(operation->type);
        name = name.substr(sizeof "CUDNN_BACKEND_OPERATION_" - 1);
        name = name.substr(0, name.size() - (sizeof "_DESCRIPTOR" - 1));
        if (operation->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
            name +=
                " " + std::to_string(operation->part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
                                         ->one(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_ADD));
        pattern += (pattern.empty() ? "" : ", ") + name;
    }
    return pattern;
}

}  // namespace gx::cuda_testing
