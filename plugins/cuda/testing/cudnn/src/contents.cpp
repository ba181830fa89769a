// Tensors and operations of finalized descriptors, and what cudnnBackendFinalize checks of each.
#include "contents.hpp"

#include <algorithm>  // ranges
#include <array>      // dims

#include "attributes.hpp"

namespace gx::cuda_testing {

namespace {

using Dims = std::vector<std::int64_t>;

Refusal bad(const std::string& sentence) { return {CUDNN_STATUS_BAD_PARAM, sentence}; }
/// What libcudnn takes, and no program means.
Refusal misused(const std::string& sentence) { return {CUDNN_STATUS_SUCCESS, sentence}; }

Refusal absent(const std::string& what) {
    return {CUDNN_STATUS_NOT_SUPPORTED, what + " is not in this double."};
}

std::string text(const Dims& dims) {
    std::string t = "(";
    for (const std::int64_t d : dims) t += (t.size() > 1 ? ", " : "") + std::to_string(d);
    return t + ")";
}

// ---- Tensors ----------------------------------------------------------------------------------

/// Wider numbers than fp32 are scalars alone.
bool has_type(cudnnDataType_t type, bool by_value) {
    switch (type) {
        case CUDNN_DATA_FLOAT:
        case CUDNN_DATA_HALF:
        case CUDNN_DATA_BFLOAT16:
        case CUDNN_DATA_INT8:
        case CUDNN_DATA_UINT8:
        case CUDNN_DATA_INT32: return true;
        case CUDNN_DATA_DOUBLE:
        case CUDNN_DATA_INT64: return by_value;
        default: return false;
    }
}

Refusal check_tensor(const Contents& c) {
    const TensorInfo t = tensor_info(c);
    if (t.dims.empty()) return bad("no dimensions.");
    if (t.dims.size() != t.strides.size())
        return bad(std::to_string(t.dims.size()) + " dimensions and " +
                   std::to_string(t.strides.size()) + " strides.");
    if (!has_type(t.type, t.by_value))
        return absent((t.by_value ? "a scalar of data type " : "a tensor of data type ") +
                      std::to_string(t.type));
    const std::int64_t alignment = c.integer(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
    if (alignment <= 0 || alignment % size_of(t.type) != 0)
        return bad("an alignment of " + std::to_string(alignment) +
                   " bytes; expected a multiple of the element's " +
                   std::to_string(size_of(t.type)) + ".");
    for (const std::int64_t d : t.dims)
        if (d < 0) return bad("a dimension below 0.");
    for (const std::int64_t s : t.strides)
        if (s < 0) return bad("a stride below 0.");
    if (t.by_value && t.elements() > 1) return bad("a tensor by value of more than one element.");
    if (std::ranges::count(t.dims, 0) > 0)
        return misused("a tensor " + text(t.dims) + " is empty.");
    if (c.integer(CUDNN_ATTR_TENSOR_VECTOR_COUNT, 1) != 1) return absent("a vectorized tensor");
    return {};
}

Refusal check_convolution(const Contents& c) {
    const std::int64_t n = c.integer(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
    if (n < 1) return bad("no spatial dimensions.");
    const auto least = [&](Attribute a, std::int64_t value) {
        const Dims dims = c.integers(a);
        return static_cast<std::int64_t>(dims.size()) == n &&
               std::ranges::all_of(dims, [&](std::int64_t d) { return d >= value; });
    };
    if (!least(CUDNN_ATTR_CONVOLUTION_DILATIONS, 1))
        return bad("dilations of at least 1 are missing.");
    if (!least(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1))
        return bad("strides of at least 1 are missing.");
    for (const Attribute a :
         {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS})
        if (c.has(a) && !least(a, 0)) return bad("a padding is below 0.");
    return {};
}

// ---- Operations -------------------------------------------------------------------------------

struct ConvolutionTensors {
    Attribute convolution, x, w, y;
};
ConvolutionTensors convolution_tensors(cudnnBackendDescriptorType_t type) {
    if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
        return {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
    if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
        return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
    return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
}

bool is_final(const Contents* part) { return part != nullptr && part->finalized; }

/// Shapes: x (N, C, ...), w (K, C / groups, ...), y (N, K, ...).
Refusal check_convolution_operation(const Contents& c) {
    const ConvolutionTensors at = convolution_tensors(c.type);
    for (const Attribute a : {at.convolution, at.x, at.w, at.y})
        if (!is_final(c.part(a)))
            return bad("a descriptor is missing, or was not finalized when it was set.");
    const Contents& conv = *c.part(at.convolution);
    const Dims x = tensor_info(*c.part(at.x)).dims, w = tensor_info(*c.part(at.w)).dims,
               y = tensor_info(*c.part(at.y)).dims;
    const std::string shapes = "x " + text(x) + ", w " + text(w) + ", y " + text(y) + ": ";
    const auto spatial =
        static_cast<std::size_t>(conv.integer(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
    if (x.size() != w.size() || x.size() != y.size() || x.size() != spatial + 2)
        return bad(shapes + "ranks that differ.");
    if (x[0] != y[0]) return bad(shapes + "batches that differ.");
    if (y[1] != w[0]) return bad(shapes + "y has other channels than w has filters.");
    if (x[1] % w[1] != 0) return bad(shapes + "the channels of x are no multiple of those of w.");
    if (w[0] % (x[1] / w[1]) != 0)
        return bad(shapes + "the filters are no multiple of the groups.");
    const Dims before = conv.integers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
               behind = conv.integers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS),
               strides = conv.integers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
               dilations = conv.integers(CUDNN_ATTR_CONVOLUTION_DILATIONS);
    for (std::size_t i = 0; i < spatial; ++i) {
        const std::int64_t room =
            x[i + 2] + before[i] + behind[i] - dilations[i] * (w[i + 2] - 1) - 1;
        if (room < 0 || room / strides[i] + 1 != y[i + 2])
            return bad(shapes + "dimension " + std::to_string(i + 2) + " of y is not " +
                       std::to_string(room < 0 ? 0 : room / strides[i] + 1) + ".");
    }
    return {};
}

/// How many tensors a mode reads; 0: it is not in this double.
int operands_of(cudnnPointwiseMode_t mode) {
    switch (mode) {
        case CUDNN_POINTWISE_ADD:
        case CUDNN_POINTWISE_ADD_SQUARE:
        case CUDNN_POINTWISE_DIV:
        case CUDNN_POINTWISE_MAX:
        case CUDNN_POINTWISE_MIN:
        case CUDNN_POINTWISE_MUL:
        case CUDNN_POINTWISE_POW:
        case CUDNN_POINTWISE_SUB:
        case CUDNN_POINTWISE_RELU_BWD:
        case CUDNN_POINTWISE_TANH_BWD:
        case CUDNN_POINTWISE_SIGMOID_BWD:
        case CUDNN_POINTWISE_GELU_BWD: return 2;
        case CUDNN_POINTWISE_IDENTITY:
        case CUDNN_POINTWISE_ABS:
        case CUDNN_POINTWISE_NEG:
        case CUDNN_POINTWISE_EXP:
        case CUDNN_POINTWISE_LOG:
        case CUDNN_POINTWISE_SQRT:
        case CUDNN_POINTWISE_RSQRT:
        case CUDNN_POINTWISE_RECIPROCAL:
        case CUDNN_POINTWISE_ERF:
        case CUDNN_POINTWISE_TANH_FWD:
        case CUDNN_POINTWISE_SIGMOID_FWD:
        case CUDNN_POINTWISE_GELU_FWD:
        case CUDNN_POINTWISE_RELU_FWD: return 1;
        default: return 0;
    }
}
Refusal check_mode(const Contents& c) {
    const auto mode = c.one(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_ADD);
    return operands_of(mode) > 0 ? Refusal{} : absent("pointwise mode " + std::to_string(mode));
}
bool is_backward(cudnnPointwiseMode_t mode) {
    return mode >= CUDNN_POINTWISE_RELU_BWD && mode <= CUDNN_POINTWISE_GELU_APPROX_TANH_BWD;
}

bool broadcasts(const Dims& from, const Dims& to) {
    if (from.size() != to.size()) return false;
    for (std::size_t i = 0; i < from.size(); ++i)
        if (from[i] != to[i] && from[i] != 1) return false;
    return true;
}

Refusal check_pointwise(const Contents& c) {
    const Contents* const pointwise = c.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    if (!is_final(pointwise)) return bad("no finalized pointwise descriptor.");
    const auto mode = pointwise->one(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_ADD);
    std::vector<Attribute> reads, takes_not;
    Attribute y = CUDNN_ATTR_OPERATION_POINTWISE_YDESC;
    if (is_backward(mode)) {
        reads = {CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, CUDNN_ATTR_OPERATION_POINTWISE_XDESC};
        takes_not = {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_ATTR_OPERATION_POINTWISE_YDESC};
        y = CUDNN_ATTR_OPERATION_POINTWISE_DXDESC;
    } else {
        reads = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC};
        takes_not = {CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, CUDNN_ATTR_OPERATION_POINTWISE_DXDESC};
        (operands_of(mode) == 2 ? reads : takes_not)
            .push_back(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    }
    if (!is_final(c.part(y))) return bad("its result is missing.");
    const Dims to = tensor_info(*c.part(y)).dims;
    for (const Attribute a : reads)
        if (!is_final(c.part(a)) || tensor_info(*c.part(a)).dims.size() != to.size())
            return bad("an operand is missing, or of another rank than the result.");
    for (const Attribute a : reads)
        if (!broadcasts(tensor_info(*c.part(a)).dims, to))
            return misused("an operand " + text(tensor_info(*c.part(a)).dims) +
                           " does not broadcast to the result " + text(to) + ".");
    for (const Attribute a : takes_not)
        if (c.has(a))
            return misused(std::string(rule_of(c.type, a)->text) + " is set, and mode " +
                           std::to_string(mode) + " does not use it.");
    return {};
}

Refusal check_matmul(const Contents& c) {
    if (!is_final(c.part(CUDNN_ATTR_OPERATION_MATMUL_DESC)))
        return bad("no finalized matmul descriptor.");
    std::array<Dims, 3> dims;
    for (std::size_t i = 0;
         const Attribute a : {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC,
                              CUDNN_ATTR_OPERATION_MATMUL_CDESC}) {
        if (!is_final(c.part(a))) return {CUDNN_STATUS_NOT_SUPPORTED, "a tensor is missing."};
        dims[i++] = tensor_info(*c.part(a)).dims;
    }
    const auto& [a, b, y] = dims;
    const std::string shapes = "A " + text(a) + ", B " + text(b) + ", C " + text(y) + ": ";
    const std::size_t rank = a.size();
    if (rank < 2 || b.size() != rank || y.size() != rank) return bad(shapes + "ranks that differ.");
    if (a[rank - 1] != b[rank - 2] || a[rank - 2] != y[rank - 2] || b[rank - 1] != y[rank - 1])
        return bad(shapes + "expected (M, K), (K, N), (M, N).");
    for (std::size_t i = 0; i + 2 < rank; ++i)
        if ((a[i] != y[i] && a[i] != 1) || (b[i] != y[i] && b[i] != 1))
            return bad(shapes + "batches that differ.");
    return {};
}

Refusal check_operator(const Contents& c) {
    const auto op = c.one(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_REDUCE_TENSOR_ADD);
    return op <= CUDNN_REDUCE_TENSOR_MAX ? Refusal{}
                                         : absent("reduction operator " + std::to_string(op));
}

Refusal check_reduction(const Contents& c) {
    if (!is_final(c.part(CUDNN_ATTR_OPERATION_REDUCTION_DESC)))
        return bad("no finalized reduction descriptor.");
    const Contents* const x = c.part(CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
    const Contents* const y = c.part(CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    if (!is_final(x) || !is_final(y)) return bad("a tensor is missing.");
    const Dims from = tensor_info(*x).dims, to = tensor_info(*y).dims;
    if (from.size() != to.size()) return bad("ranks that differ.");
    for (std::size_t i = 0; i < from.size(); ++i)
        if (to[i] == 0 || from[i] % to[i] != 0)
            return bad("x " + text(from) + " is no multiple of y " + text(to) + ".");
    for (std::size_t i = 0; i < from.size(); ++i)
        if (to[i] != from[i] && to[i] != 1)
            return misused("x " + text(from) + " to y " + text(to) +
                           ": the manual says that a dimension is reduced to 1 or kept.");
    return {};
}

/// What is outside of an image is no maximum, and adds nothing to an average.
Refusal check_windows(const Contents& c) {
    const auto mode = c.one(CUDNN_ATTR_RESAMPLE_MODE, CUDNN_RESAMPLE_MAXPOOL);
    if (mode == CUDNN_RESAMPLE_NEAREST || mode == CUDNN_RESAMPLE_BILINEAR)
        return absent("resample mode " + std::to_string(mode));
    const auto usual = mode == CUDNN_RESAMPLE_MAXPOOL ? CUDNN_NEG_INF_PAD : CUDNN_ZERO_PAD;
    const auto padding = c.one(CUDNN_ATTR_RESAMPLE_PADDING_MODE, usual);
    if (padding == usual) return {};
    return absent("padding mode " + std::to_string(padding) + " of resample mode " +
                  std::to_string(mode));
}

/// Shapes: x (N, C, ...), y and indices (N, C, ...) of the windows.
Refusal check_resample(const Contents& c, Attribute desc, Attribute x_at, Attribute y_at,
                       Attribute index_at) {
    const Contents* const d = c.part(desc);
    if (!is_final(d)) return bad("no finalized resample descriptor.");
    if (!is_final(c.part(x_at)) || !is_final(c.part(y_at))) return bad("a tensor is missing.");
    const Dims x = tensor_info(*c.part(x_at)).dims, y = tensor_info(*c.part(y_at)).dims;
    const auto n = static_cast<std::size_t>(d->integer(CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS));
    const Dims window = d->whole_numbers(CUDNN_ATTR_RESAMPLE_WINDOW_DIMS),
               strides = d->whole_numbers(CUDNN_ATTR_RESAMPLE_STRIDES),
               before = d->whole_numbers(CUDNN_ATTR_RESAMPLE_PRE_PADDINGS),
               behind = d->whole_numbers(CUDNN_ATTR_RESAMPLE_POST_PADDINGS);
    if (window.size() != n || strides.size() != n || before.size() != n || behind.size() != n ||
        x.size() != n + 2 || y.size() != n + 2)
        return bad("windows, strides, paddings and tensors do not have the spatial dimensions.");
    for (std::size_t i = 0; i < n; ++i) {
        const std::int64_t room = x[i + 2] + before[i] + behind[i] - window[i];
        if (room < 0 || strides[i] < 1 || room / strides[i] + 1 != y[i + 2])
            return bad("x " + text(x) + " to y " + text(y) + ": dimension " +
                       std::to_string(i + 2) + " does not fit the windows.");
    }
    if (x[0] != y[0] || x[1] != y[1]) return bad("batches or channels that differ.");
    const Contents* const index = c.part(index_at);
    if (index != nullptr &&
        (tensor_info(*index).type != CUDNN_DATA_INT8 || tensor_info(*index).dims != y))
        return misused("the index tensor is not int8 of the shape of y.");
    return {};
}

Refusal check_resample_backward(const Contents& c) {
    const Refusal shapes = check_resample(
        c, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC,
        CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC);
    if (!shapes.sentence.empty()) return shapes;
    const Contents& d = *c.part(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC);
    const bool is_max =
        d.one(CUDNN_ATTR_RESAMPLE_MODE, CUDNN_RESAMPLE_MAXPOOL) == CUDNN_RESAMPLE_MAXPOOL;
    const bool has_both = c.has(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_XDESC) &&
                          c.has(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_YDESC);
    if (is_max && !has_both && !c.has(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC))
        return bad("max pooling backward needs the index tensor, or x and y.");
    return {};
}

/// Batch norm and its statistics: every tensor but x, y and their gradients is (1, C, 1, 1).
Refusal check_channels(const Contents& c, Attribute x_at, const std::vector<Attribute>& needed,
                       const std::vector<Attribute>& images) {
    for (const Attribute a : needed)
        if (!is_final(c.part(a)))
            return bad(std::string(rule_of(c.type, a)->text) + " is missing.");
    const Dims x = tensor_info(*c.part(x_at)).dims;
    const OperationTensors tensors = tensors_of(c);
    for (const auto& list : {tensors.reads, tensors.writes})
        for (const Attribute a : list) {
            const TensorInfo t = tensor_info(*c.part(a));
            const bool is_image = std::ranges::find(images, a) != images.end();
            Dims channels(x.size(), 1);
            channels[1] = x[1];
            if (!t.by_value && t.dims != (is_image ? x : channels))
                return bad(std::string(rule_of(c.type, a)->text) + " is " + text(t.dims) + ".");
        }
    return {};
}

Refusal check_normalization(const Contents& c) {
    const bool forward = c.type == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR;
    const Attribute mode =
        forward ? CUDNN_ATTR_OPERATION_NORM_FWD_MODE : CUDNN_ATTR_OPERATION_NORM_BWD_MODE;
    if (c.one(mode, CUDNN_BATCH_NORM) != CUDNN_BATCH_NORM)
        return {CUDNN_STATUS_NOT_SUPPORTED, "of norms this double has batch norms only."};
    if (!forward)
        return check_channels(
            c, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC,
            {CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC,
             CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC,
             CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC,
             CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC},
            {CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC,
             CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC});
    return check_channels(
        c, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC,
        {CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC,
         CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, CUDNN_ATTR_OPERATION_NORM_FWD_YDESC},
        {CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, CUDNN_ATTR_OPERATION_NORM_FWD_YDESC});
}

Refusal check_bn_finalize(const Contents& c) {
    return check_channels(
        c, CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SUM_DESC,
        {CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SUM_DESC,
         CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SQ_SUM_DESC,
         CUDNN_ATTR_OPERATION_BN_FINALIZE_SCALE_DESC, CUDNN_ATTR_OPERATION_BN_FINALIZE_BIAS_DESC,
         CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_SCALE_DESC,
         CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_BIAS_DESC,
         CUDNN_ATTR_OPERATION_BN_FINALIZE_ACCUM_COUNT_DESC,
         CUDNN_ATTR_OPERATION_BN_FINALIZE_EPSILON_DESC},
        {});
}

}  // namespace

std::vector<std::int64_t> Contents::whole_numbers(Attribute a) const {
    Dims numbers;
    for (const cudnnFraction_t& f : all<cudnnFraction_t>(a))
        numbers.push_back(f.denominator == 1 ? f.numerator : -1);
    return numbers;
}

std::int64_t size_of(cudnnDataType_t type) {
    switch (type) {
        case CUDNN_DATA_HALF:
        case CUDNN_DATA_BFLOAT16: return 2;
        case CUDNN_DATA_INT8:
        case CUDNN_DATA_UINT8: return 1;
        case CUDNN_DATA_DOUBLE:
        case CUDNN_DATA_INT64: return 8;
        default: return 4;
    }
}
bool is_half(cudnnDataType_t type) {
    return type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16;
}

std::int64_t TensorInfo::bytes() const {
    std::int64_t last = 0;
    for (std::size_t i = 0; i < dims.size(); ++i) last += (dims[i] - 1) * strides[i];
    return (last + 1) * size_of(type);
}

TensorInfo tensor_info(const Contents& c) {
    return {.uid = c.integer(CUDNN_ATTR_TENSOR_UNIQUE_ID),
            .type = c.one(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT),
            .dims = c.integers(CUDNN_ATTR_TENSOR_DIMENSIONS),
            .strides = c.integers(CUDNN_ATTR_TENSOR_STRIDES),
            .alignment = c.integer(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1),
            .is_virtual = c.one(CUDNN_ATTR_TENSOR_IS_VIRTUAL, false),
            .by_value = c.one(CUDNN_ATTR_TENSOR_IS_BY_VALUE, false)};
}

bool is_operation(cudnnBackendDescriptorType_t type) {
    return std::string(name_of(type)).starts_with("CUDNN_BACKEND_OPERATION_");
}

Refusal check_contents(Contents& c) {
    switch (c.type) {
        case CUDNN_BACKEND_TENSOR_DESCRIPTOR: return check_tensor(c);
        case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR: return check_convolution(c);
        case CUDNN_BACKEND_POINTWISE_DESCRIPTOR: return check_mode(c);
        case CUDNN_BACKEND_REDUCTION_DESCRIPTOR: return check_operator(c);
        case CUDNN_BACKEND_RESAMPLE_DESCRIPTOR: return check_windows(c);
        case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
        case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
        case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
            return check_convolution_operation(c);
        case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: return check_pointwise(c);
        case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: return check_matmul(c);
        case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: return check_reduction(c);
        case CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR:
            return check_resample(
                c, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC,
                CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC);
        case CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR: return check_resample_backward(c);
        case CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR:
            return check_channels(
                c, CUDNN_ATTR_OPERATION_GENSTATS_XDESC,
                {CUDNN_ATTR_OPERATION_GENSTATS_XDESC, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC,
                 CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC},
                {CUDNN_ATTR_OPERATION_GENSTATS_XDESC});
        case CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR: return check_bn_finalize(c);
        case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
        case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR: return check_normalization(c);
        case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR: {
            const auto pointers = c.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
            const Dims uids = c.integers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
            if (pointers.size() != uids.size())
                return bad(std::to_string(pointers.size()) + " pointers for " +
                           std::to_string(uids.size()) + " unique ids.");
            for (const std::int64_t uid : uids)
                if (std::ranges::count(uids, uid) > 1)
                    return misused("unique id " + std::to_string(uid) + " twice.");
            return {};
        }
        case CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR:
            if (c.has(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION) ||
                c.has(CUDNN_ATTR_DEVICEPROP_HANDLE) || c.has(CUDNN_ATTR_DEVICEPROP_DEVICE_ID))
                return {};
            return {CUDNN_STATUS_NOT_INITIALIZED, "neither JSON nor a handle nor a device."};
        default: return {};
    }
}

}  // namespace gx::cuda_testing
