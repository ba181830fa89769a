#include "descriptors.hpp"

#include <utility>  // move

#include <gx/core/error.hpp>  // Error
#include <gx/cuda/error.hpp>  // expect_usable

namespace gx::cuda {

/// Weak here: programs that plan without a GPU link nothing of CUDA's runtime.
[[gnu::weak]] void expect_usable(const std::string& text);

}  // namespace gx::cuda

namespace gx::cuda::detail {

namespace {

constexpr std::int64_t virtual_uids = 1000;  // behind those of tensors in memory

using Integers = std::vector<std::int64_t>;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
void set_handle(const DnnDescriptor& graph, cudnnHandle_t handle) {
    set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
}
#pragma GCC diagnostic pop

}  // namespace

// Deprecated in the header of cuDNN 9.19, and required by those before.
void set_plan_handle(const DnnDescriptor& plan, cudnnHandle_t handle) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    if (handle != nullptr) set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
#pragma GCC diagnostic pop
}

std::string last_refusal(cudnnStatus_t status) {
    char sentence[512];
    cudnnGetLastErrorString(sentence, sizeof sentence);
    return std::string(cudnnGetErrorString(status)) + (sentence[0] == '\0' ? "" : ": ") + sentence;
}

std::string dnn_version() {
    const std::size_t v = cudnnGetVersion(), major = v < 10000 ? 1000 : 10000;  // 8907: 8.9.7
    return "cuDNN " + std::to_string(v / major) + "." + std::to_string(v % major / 100) + "." +
           std::to_string(v % 100);
}

void expect(cudnnStatus_t status, const std::string& call) {
    if (status == CUDNN_STATUS_SUCCESS) return;
    const std::string text = dnn_version() + ": " + call + ": " + last_refusal(status);
    if (expect_usable != nullptr) expect_usable(text);
    throw Error(text);
}

DnnDescriptor make_descriptor(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t made = nullptr;
    expect(cudnnBackendCreateDescriptor(type, &made), "cudnnBackendCreateDescriptor");
    return DnnDescriptor(made);
}
void set_part(const DnnDescriptor& d, cudnnBackendAttributeName_t name, const void* part) {
    set(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, part);
}
void finalize(const DnnDescriptor& d, const std::string& what) {
    expect(cudnnBackendFinalize(d.get()), what);
}

std::string DnnShape::text() const {
    return "(" + std::to_string(n) + ", " + std::to_string(c) + ", " + std::to_string(h) + ", " +
           std::to_string(w) + ")";
}

void DnnGraph::sign(cudnnBackendAttributeName_t name, const void* bytes, std::size_t count) {
    signature_ += std::to_string(name) + ":" + std::to_string(count) + ":";
    signature_.append(static_cast<const char*>(bytes), count);
}
void DnnGraph::set_part(const DnnDescriptor& d, cudnnBackendAttributeName_t name,
                        const void* part) {
    std::size_t i = 0;
    while (i < kept_.size() && kept_[i].get() != part) ++i;
    sign(name, &i, sizeof i);
    detail::set_part(d, name, part);
}
void DnnGraph::set_integers(const DnnDescriptor& d, cudnnBackendAttributeName_t name,
                            const Integers& v) {
    set(d, name, CUDNN_TYPE_INT64, v);
}
void DnnGraph::set_fractions(const DnnDescriptor& d, cudnnBackendAttributeName_t name,
                             const Integers& v) {
    std::vector<cudnnFraction_t> fractions;
    for (const std::int64_t n : v) fractions.push_back({n, 1});
    set(d, name, CUDNN_TYPE_FRACTION, fractions);
}
// cuDNN 9 calls the attributes of NaN deprecated, and has no others: without them a NaN ends here.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
void DnnGraph::keep_nan(const DnnDescriptor& d, bool is_pointwise) {
    set(d,
        is_pointwise ? CUDNN_ATTR_POINTWISE_NAN_PROPAGATION : CUDNN_ATTR_RESAMPLE_NAN_PROPAGATION,
        CUDNN_TYPE_NAN_PROPOGATION, CUDNN_PROPAGATE_NAN);
}
#pragma GCC diagnostic pop

void* DnnGraph::keep(DnnDescriptor d, const std::string& what) {
    signature_ += what + ";";
    finalize(d, what);
    return kept_.emplace_back(std::move(d)).get();
}
void DnnGraph::add(DnnDescriptor operation, const std::string& what) {
    operations_.push_back(keep(std::move(operation), what));
}

void* DnnGraph::make_tensor(const DnnShape& s, cudnnDataType_t type, std::int64_t uid,
                            bool is_virtual) {
    DnnDescriptor t = make_descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, uid);
    set(t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
    set(t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64,
        std::int64_t{DnnPlan::alignment_bytes});
    set_integers(t, CUDNN_ATTR_TENSOR_DIMENSIONS, {s.n, s.c, s.h, s.w});
    set_integers(t, CUDNN_ATTR_TENSOR_STRIDES, {s.h * s.w * s.c, 1, s.w * s.c, s.c});
    if (is_virtual) set(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, true);
    return keep(std::move(t), "a tensor " + s.text());
}
void* DnnGraph::tensor(const DnnShape& shape, cudnnDataType_t type) {
    return make_tensor(shape, type, static_cast<std::int64_t>(++tensors_), false);
}
void* DnnGraph::virtual_tensor(const DnnShape& shape) {
    return make_tensor(shape, CUDNN_DATA_FLOAT,
                       virtual_uids + static_cast<std::int64_t>(kept_.size()), true);
}

void* DnnGraph::make_convolution(const Convolution& c) {
    DnnDescriptor d = make_descriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, std::int64_t{2});
    set(d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    set(d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
    set_integers(d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {c.before.height, c.before.width});
    set_integers(d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, {c.behind.height, c.behind.width});
    set_integers(d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {c.stride, c.stride});
    set_integers(d, CUDNN_ATTR_CONVOLUTION_DILATIONS, {1, 1});
    return keep(std::move(d), "a convolution");
}

void DnnGraph::convolve(const Convolution& c, void* x, void* weight, void* y) {
    DnnDescriptor o = make_descriptor(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    set_part(o, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, make_convolution(c));
    set_part(o, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    set_part(o, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, weight);
    set_part(o, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
    set(o, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1.0f);
    set(o, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 0.0f);
    add(std::move(o), "a convolution");
}
void DnnGraph::convolve_input_gradient(const Convolution& c, void* dy, void* weight, void* dx) {
    DnnDescriptor o = make_descriptor(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
    set_part(o, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, make_convolution(c));
    set_part(o, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, dy);
    set_part(o, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, weight);
    set_part(o, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, dx);
    set(o, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_TYPE_FLOAT, 1.0f);
    set(o, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_TYPE_FLOAT, 0.0f);
    add(std::move(o), "a convolution's input gradient");
}
void DnnGraph::convolve_weight_gradient(const Convolution& c, void* x, void* dy, void* dweight) {
    DnnDescriptor o =
        make_descriptor(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
    set_part(o, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, make_convolution(c));
    set_part(o, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, x);
    set_part(o, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, dy);
    set_part(o, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, dweight);
    set(o, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_TYPE_FLOAT, 1.0f);
    set(o, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_TYPE_FLOAT, 0.0f);
    add(std::move(o), "a convolution's weight gradient");
}

void* DnnGraph::make_pointwise(cudnnPointwiseMode_t mode) {
    DnnDescriptor d = make_descriptor(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(d, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
    set(d, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    keep_nan(d, true);
    return keep(std::move(d), "a pointwise mode");
}
void DnnGraph::pointwise(cudnnPointwiseMode_t mode, void* x, void* b, void* y) {
    DnnDescriptor o = make_descriptor(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_part(o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, make_pointwise(mode));
    set_part(o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b != nullptr) set_part(o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    set_part(o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    add(std::move(o), "a pointwise operation");
}
void DnnGraph::sum(void* x, void* y) {
    DnnDescriptor d = make_descriptor(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set(d, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE,
        CUDNN_REDUCE_TENSOR_ADD);
    set(d, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    DnnDescriptor o = make_descriptor(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_part(o, CUDNN_ATTR_OPERATION_REDUCTION_DESC, keep(std::move(d), "a reduction"));
    set_part(o, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_part(o, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    add(std::move(o), "a reduction");
}
void DnnGraph::statistics(void* y, void* sum, void* squares) {
    DnnDescriptor o = make_descriptor(CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);
    set(o, CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE, CUDNN_GENSTATS_SUM_SQSUM);
    set(o, CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    set_part(o, CUDNN_ATTR_OPERATION_GENSTATS_XDESC, y);
    set_part(o, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, sum);
    set_part(o, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, squares);
    add(std::move(o), "statistics");
}

void* DnnGraph::make_window(const Window& w) {
    DnnDescriptor d = make_descriptor(CUDNN_BACKEND_RESAMPLE_DESCRIPTOR);
    set(d, CUDNN_ATTR_RESAMPLE_MODE, CUDNN_TYPE_RESAMPLE_MODE, CUDNN_RESAMPLE_MAXPOOL);
    set(d, CUDNN_ATTR_RESAMPLE_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    set(d, CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, CUDNN_TYPE_INT64, std::int64_t{2});
    set(d, CUDNN_ATTR_RESAMPLE_PADDING_MODE, CUDNN_TYPE_PADDING_MODE, CUDNN_NEG_INF_PAD);
    keep_nan(d, false);
    set_fractions(d, CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, {w.height, w.width});
    set_fractions(d, CUDNN_ATTR_RESAMPLE_STRIDES, {w.stride, w.stride});
    for (const auto side : {CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, CUDNN_ATTR_RESAMPLE_POST_PADDINGS})
        set_fractions(d, side, {w.pad_height, w.pad_width});
    return keep(std::move(d), "a window");
}
void DnnGraph::max_pool(const Window& window, void* x, void* y, void* index) {
    DnnDescriptor o = make_descriptor(CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR);
    set_part(o, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, make_window(window));
    set_part(o, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, x);
    set_part(o, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, y);
    set_part(o, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC, index);
    add(std::move(o), "a pooling");
}
void DnnGraph::max_pool_gradient(const Window& window, void* dy, void* index, void* dx) {
    DnnDescriptor o = make_descriptor(CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR);
    set_part(o, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC, make_window(window));
    set_part(o, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC, dy);
    set_part(o, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC, index);
    set_part(o, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC, dx);
    add(std::move(o), "a pooling's gradient");
}

DnnDescriptor DnnGraph::finish(cudnnHandle_t handle) const {
    DnnDescriptor graph = make_descriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    detail::set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations_);
    if (handle != nullptr) set_handle(graph, handle);
    finalize(graph, "an operation graph");
    return graph;
}

}  // namespace gx::cuda::detail
