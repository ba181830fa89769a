// Backend descriptors of cuDNN as values, with graphs and plans, for contract and tests.
// Uses cudnn.h alone, so that libcudnn can be linked.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace backend {

using Dims = std::vector<std::int64_t>;
using Name = cudnnBackendAttributeName_t;

inline constexpr auto fp32 = CUDNN_DATA_FLOAT, fp16 = CUDNN_DATA_HALF, bf16 = CUDNN_DATA_BFLOAT16,
                      int8 = CUDNN_DATA_INT8;

/// A descriptor. Setters keep the first status that is not success, and return the descriptor.
class Descriptor {
public:
    explicit Descriptor(cudnnBackendDescriptorType_t type) {
        keep(cudnnBackendCreateDescriptor(type, &handle_));
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    Descriptor(Descriptor&& o) noexcept
        : handle_(std::exchange(o.handle_, nullptr)), status_(o.status_) {}
    ~Descriptor() {
        if (handle_ != nullptr) cudnnBackendDestroyDescriptor(handle_);
    }

    Descriptor& set(Name name, cudnnBackendAttributeType_t type, std::int64_t count,
                    const void* elements) {
        keep(cudnnBackendSetAttribute(handle_, name, type, count, elements));
        return *this;
    }
    Descriptor& integers(Name name, const Dims& v) {
        return set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(v.size()), v.data());
    }
    Descriptor& integer(Name name, std::int64_t v) { return set(name, CUDNN_TYPE_INT64, 1, &v); }
    Descriptor& fractions(Name name, const Dims& v) {
        std::vector<cudnnFraction_t> f;
        for (const std::int64_t n : v) f.push_back({n, 1});
        return set(name, CUDNN_TYPE_FRACTION, static_cast<std::int64_t>(f.size()), f.data());
    }
    Descriptor& flag(Name name, bool v) { return set(name, CUDNN_TYPE_BOOLEAN, 1, &v); }
    Descriptor& number(Name name, float v) { return set(name, CUDNN_TYPE_FLOAT, 1, &v); }
    Descriptor& data_type(Name name, cudnnDataType_t v) {
        return set(name, CUDNN_TYPE_DATA_TYPE, 1, &v);
    }
    template <class E>
    Descriptor& choice(Name name, cudnnBackendAttributeType_t type, E v) {
        return set(name, type, 1, &v);
    }
    Descriptor& part(Name name, const Descriptor& v) {
        return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &v.handle_);
    }
    Descriptor& part(Name name, const Descriptor* v) {
        return v == nullptr ? *this : part(name, *v);
    }
    Descriptor& finalize() {
        keep(cudnnBackendFinalize(handle_));
        return *this;
    }
    [[nodiscard]] cudnnBackendDescriptor_t handle() const { return handle_; }
    [[nodiscard]] cudnnBackendDescriptor_t* address() { return &handle_; }
    [[nodiscard]] cudnnStatus_t status() const { return status_; }

private:
    void keep(cudnnStatus_t status) {
        if (status_ == CUDNN_STATUS_SUCCESS) status_ = status;
    }
    cudnnBackendDescriptor_t handle_ = nullptr;
    cudnnStatus_t status_ = CUDNN_STATUS_SUCCESS;
};

/// Strides of dims in memory with the channels last; of three dims, row-major.
inline Dims channels_last(const Dims& d) {
    if (d.size() == 3) return {d[1] * d[2], d[2], 1};
    return {d[1] * d[2] * d[3], 1, d[1] * d[3], d[1]};
}

struct TensorSpec {
    std::int64_t uid = 1;
    Dims dims{};
    cudnnDataType_t type = fp32;
    Dims strides{};  ///< empty: channels_last
    bool is_virtual = false, by_value = false;
    std::int64_t alignment = 16;
};
inline Descriptor tensor(const TensorSpec& s) {
    Descriptor t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    t.integer(CUDNN_ATTR_TENSOR_UNIQUE_ID, s.uid)
        .data_type(CUDNN_ATTR_TENSOR_DATA_TYPE, s.type)
        .integer(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, s.alignment)
        .integers(CUDNN_ATTR_TENSOR_DIMENSIONS, s.dims)
        .integers(CUDNN_ATTR_TENSOR_STRIDES, s.strides.empty() ? channels_last(s.dims) : s.strides);
    if (s.is_virtual) t.flag(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
    if (s.by_value) t.flag(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
    t.finalize();
    return t;
}

struct ConvolutionSpec {
    Dims pad{0, 0}, stride{1, 1}, dilation{1, 1};
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
};
inline Descriptor convolution(const ConvolutionSpec& s) {
    Descriptor c(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    c.integer(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2)
        .data_type(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, fp32)
        .choice(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, s.mode)
        .integers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, s.pad)
        .integers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, s.pad)
        .integers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, s.stride)
        .integers(CUDNN_ATTR_CONVOLUTION_DILATIONS, s.dilation)
        .finalize();
    return c;
}

inline Descriptor reduction(cudnnReduceTensorOp_t op) {
    Descriptor r(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    r.choice(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, op)
        .data_type(CUDNN_ATTR_REDUCTION_COMP_TYPE, fp32)
        .finalize();
    return r;
}

struct WindowSpec {
    cudnnResampleMode_t mode = CUDNN_RESAMPLE_MAXPOOL;
    Dims window{2, 2}, stride{2, 2}, pad{0, 0};
    bool propagates_nan = true, by_integers = false;
    std::optional<cudnnPaddingMode_t> padding{};  ///< none: the usual one of the mode
};
inline Descriptor resample(const WindowSpec& s) {
    const auto usual = s.mode == CUDNN_RESAMPLE_MAXPOOL ? CUDNN_NEG_INF_PAD : CUDNN_ZERO_PAD;
    Descriptor d(CUDNN_BACKEND_RESAMPLE_DESCRIPTOR);
    d.choice(CUDNN_ATTR_RESAMPLE_MODE, CUDNN_TYPE_RESAMPLE_MODE, s.mode)
        .data_type(CUDNN_ATTR_RESAMPLE_COMP_TYPE, fp32)
        .integer(CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, 2);
    for (const auto& [name, v] : {std::pair{CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, s.window},
                                  std::pair{CUDNN_ATTR_RESAMPLE_STRIDES, s.stride},
                                  std::pair{CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, s.pad},
                                  std::pair{CUDNN_ATTR_RESAMPLE_POST_PADDINGS, s.pad}})
        s.by_integers ? d.integers(name, v) : d.fractions(name, v);
    d.choice(CUDNN_ATTR_RESAMPLE_PADDING_MODE, CUDNN_TYPE_PADDING_MODE, s.padding.value_or(usual));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    d.choice(CUDNN_ATTR_RESAMPLE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION,
             s.propagates_nan ? CUDNN_PROPAGATE_NAN : CUDNN_NOT_PROPAGATE_NAN);
#pragma GCC diagnostic pop
    d.finalize();
    return d;
}

enum class Conv : unsigned char { forward, data, filter };

/// Operations and their descriptors. Tensors get the unique ids 1, 2, 3 ... as tensor() makes them.
class Graph {
public:
    Descriptor& tensor(TensorSpec s) {
        s.uid = ++tensors_;
        return keep(backend::tensor(s));
    }
    Descriptor& tensor(const Dims& dims, cudnnDataType_t type, bool is_virtual = false) {
        return tensor({.dims = dims, .type = type, .is_virtual = is_virtual});
    }
    Descriptor& keep(Descriptor d) { return kept_.emplace_back(std::move(d)); }
    void operation(Descriptor d) { operations_.push_back(keep(std::move(d.finalize())).handle()); }

    void conv(Conv kind, const Descriptor& x, const Descriptor& w, const Descriptor& y,
              const ConvolutionSpec& spec = {}) {
        const Descriptor& c = keep(convolution(spec));
        using enum Conv;
        if (kind == forward) {
            Descriptor o(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
            o.part(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, c)
                .part(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x)
                .part(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w)
                .part(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y)
                .number(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1)
                .number(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0);
            return operation(std::move(o));
        }
        if (kind == data) {
            Descriptor o(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
            o.part(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, c)
                .part(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, x)
                .part(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, w)
                .part(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, y)
                .number(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 1)
                .number(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 0);
            return operation(std::move(o));
        }
        Descriptor o(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
        o.part(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, c)
            .part(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, x)
            .part(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, w)
            .part(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, y)
            .number(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 1)
            .number(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 0);
        operation(std::move(o));
    }

    Descriptor& mode(cudnnPointwiseMode_t m, bool propagates_nan = true) {
        Descriptor p(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
        p.choice(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, m)
            .data_type(CUDNN_ATTR_POINTWISE_MATH_PREC, fp32);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
        p.choice(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION,
                 propagates_nan ? CUDNN_PROPAGATE_NAN : CUDNN_NOT_PROPAGATE_NAN);
#pragma GCC diagnostic pop
        return keep(std::move(p.finalize()));
    }
    void pointwise(cudnnPointwiseMode_t m, const Descriptor& x, const Descriptor* b,
                   const Descriptor& y, bool propagates_nan = true) {
        Descriptor o(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
        o.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, mode(m, propagates_nan))
            .part(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
            .part(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b)
            .part(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
        operation(std::move(o));
    }
    void pointwise_backward(cudnnPointwiseMode_t m, const Descriptor& dy, const Descriptor& x,
                            const Descriptor& dx) {
        Descriptor o(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
        o.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, mode(m))
            .part(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, dy)
            .part(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
            .part(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, dx);
        operation(std::move(o));
    }
    void matmul(const Descriptor& a, const Descriptor& b, const Descriptor& c) {
        Descriptor m(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
        m.data_type(CUDNN_ATTR_MATMUL_COMP_TYPE, fp32).finalize();
        Descriptor o(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
        o.part(CUDNN_ATTR_OPERATION_MATMUL_DESC, keep(std::move(m)))
            .part(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a)
            .part(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b)
            .part(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
        operation(std::move(o));
    }
    void reduce(const Descriptor& x, const Descriptor& y,
                cudnnReduceTensorOp_t op = CUDNN_REDUCE_TENSOR_ADD) {
        Descriptor o(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
        o.part(CUDNN_ATTR_OPERATION_REDUCTION_DESC, keep(reduction(op)))
            .part(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x)
            .part(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
        operation(std::move(o));
    }
    void pool(const WindowSpec& s, const Descriptor& x, const Descriptor& y,
              const Descriptor* index = nullptr) {
        Descriptor o(CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR);
        o.part(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, keep(resample(s)))
            .part(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, x)
            .part(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, y)
            .part(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC, index);
        operation(std::move(o));
    }
    void pool_backward(const WindowSpec& s, const Descriptor& dy, const Descriptor& dx,
                       const Descriptor* index = nullptr) {
        Descriptor o(CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR);
        o.part(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC, keep(resample(s)))
            .part(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC, dx)
            .part(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC, dy)
            .part(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC, index);
        operation(std::move(o));
    }
    void statistics(const Descriptor& x, const Descriptor& sum, const Descriptor& squares) {
        Descriptor o(CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);
        o.choice(CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE,
                 CUDNN_GENSTATS_SUM_SQSUM)
            .data_type(CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, fp32)
            .part(CUDNN_ATTR_OPERATION_GENSTATS_XDESC, x)
            .part(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, sum)
            .part(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, squares);
        operation(std::move(o));
    }

    /// The first status of all descriptors that is not success.
    [[nodiscard]] cudnnStatus_t status() const {
        for (const Descriptor& d : kept_)
            if (d.status() != CUDNN_STATUS_SUCCESS) return d.status();
        return CUDNN_STATUS_SUCCESS;
    }
    /// The operation graph; not finalized.
    [[nodiscard]] Descriptor operation_graph() const {
        Descriptor g(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
        g.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
              static_cast<std::int64_t>(operations_.size()), operations_.data());
        return g;
    }

private:
    std::int64_t tensors_ = 0;
    std::deque<Descriptor> kept_{};
    std::vector<cudnnBackendDescriptor_t> operations_{};
};

inline Descriptor device_properties(const std::string& json) {
    Descriptor p(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    p.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
          static_cast<std::int64_t>(json.size()), json.data());
    p.finalize();
    return p;
}

/// Configurations of engines that heuristics propose, the preferred first.
inline std::vector<Descriptor> configurations(const Descriptor& graph, cudnnBackendHeurMode_t mode,
                                              const Descriptor* device, cudnnStatus_t& status) {
    Descriptor h(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    h.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
        .choice(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode)
        .part(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device)
        .finalize();
    status = h.status();
    std::vector<Descriptor> found;
    if (status != CUDNN_STATUS_SUCCESS) return found;
    std::int64_t count = 0;
    cudnnBackendGetAttribute(h.handle(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                             CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr);
    std::vector<cudnnBackendDescriptor_t> handles;
    for (std::int64_t i = 0; i < count; ++i)
        handles.push_back(found.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).handle());
    status = cudnnBackendGetAttribute(h.handle(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                      CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, handles.data());
    while (static_cast<std::int64_t>(found.size()) > count) found.pop_back();
    return found;
}

inline std::vector<cudnnBackendNumericalNote_t> notes_of(const Descriptor& configuration) {
    Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    std::int64_t count = 0;
    std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
    cudnnBackendGetAttribute(configuration.handle(), CUDNN_ATTR_ENGINECFG_ENGINE,
                             CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, engine.address());
    cudnnBackendGetAttribute(engine.handle(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                             CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count,
                             notes.data());
    notes.resize(static_cast<std::size_t>(count));
    return notes;
}

inline Descriptor plan(const Descriptor& configuration, const Descriptor* device) {
    Descriptor p(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    p.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration)
        .part(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device)
        .finalize();
    return p;
}
inline std::int64_t workspace_bytes(const Descriptor& p) {
    std::int64_t bytes = -1, count = 0;
    cudnnBackendGetAttribute(p.handle(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                             1, &count, &bytes);
    return bytes;
}

}  // namespace backend
