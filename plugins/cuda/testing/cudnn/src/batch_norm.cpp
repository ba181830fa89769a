// Batch norm: statistics, its passes and their gradient.
#include <cmath>    // sqrt
#include <utility>  // move

#include "compute.hpp"

namespace gx::cuda_testing {

namespace {

/// Calls visit(channel, index) for x (N, C, ...). Order: n, then pixels.
template <class Visit>
void for_each_by_channel(const Dims& x, Visit visit) {
    std::int64_t pixels = 1;
    for (std::size_t d = 2; d < x.size(); ++d) pixels *= x[d];
    for (std::int64_t n = 0, i = 0; n < x[0]; ++n)
        for (std::int64_t c = 0; c < x[1]; ++c)
            for (std::int64_t p = 0; p < pixels; ++p, ++i)
                visit(static_cast<std::size_t>(c), static_cast<std::size_t>(i));
}

/// running = (1 - factor) * running + factor * batch; of the variance the unbiased one.
struct Running {
    Attribute mean_in, variance_in, mean_out, variance_out, factor;
};

void update_running(Tensors& t, const Contents& op, const Running& at, const Values& mean,
                    const Values& variance, float count) {
    if (!op.has(at.mean_out)) return;
    const float factor = t.read(op, at.factor)[0];
    Values means = t.read(op, at.mean_in), variances = t.read(op, at.variance_in);
    for (std::size_t c = 0; c < mean.size(); ++c) {
        const float unbiased = count > 1 ? variance[c] * (count / (count - 1)) : variance[c];
        means[c] = (1 - factor) * means[c] + factor * mean[c];
        variances[c] = (1 - factor) * variances[c] + factor * unbiased;
    }
    t.write(op, at.mean_out, std::move(means));
    t.write(op, at.variance_out, std::move(variances));
}

}  // namespace

void generate_statistics(Tensors& t, const Contents& op) {
    const Dims dims = dims_of(op, CUDNN_ATTR_OPERATION_GENSTATS_XDESC);
    const Values& x = t.read(op, CUDNN_ATTR_OPERATION_GENSTATS_XDESC);
    Values sums(static_cast<std::size_t>(dims[1])), squares(sums.size());
    for_each_by_channel(dims, [&](std::size_t c, std::size_t i) {
        sums[c] += x[i];
        squares[c] += x[i] * x[i];
    });
    t.write(op, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, std::move(sums));
    t.write(op, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, std::move(squares));
}

/// eq_scale = scale / sqrt(variance + epsilon), eq_bias = bias - mean * eq_scale.
void finalize_statistics(Tensors& t, const Contents& op) {
    const Values sums = t.read(op, CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SUM_DESC),
                 squares = t.read(op, CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SQ_SUM_DESC),
                 scale = t.read(op, CUDNN_ATTR_OPERATION_BN_FINALIZE_SCALE_DESC),
                 bias = t.read(op, CUDNN_ATTR_OPERATION_BN_FINALIZE_BIAS_DESC);
    const float count = t.read(op, CUDNN_ATTR_OPERATION_BN_FINALIZE_ACCUM_COUNT_DESC)[0],
                epsilon = t.read(op, CUDNN_ATTR_OPERATION_BN_FINALIZE_EPSILON_DESC)[0];
    Values mean(sums.size()), variance(sums.size()), inverse(sums.size()), eq_scale(sums.size()),
        eq_bias(sums.size());
    for (std::size_t c = 0; c < sums.size(); ++c) {
        mean[c] = sums[c] / count;
        variance[c] = squares[c] / count - mean[c] * mean[c];
        inverse[c] = 1 / std::sqrt(variance[c] + epsilon);
        eq_scale[c] = scale[c] * inverse[c];
        eq_bias[c] = bias[c] - mean[c] * eq_scale[c];
    }
    update_running(t, op,
                   {CUDNN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_MEAN_DESC,
                    CUDNN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_VAR_DESC,
                    CUDNN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC,
                    CUDNN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_VAR_DESC,
                    CUDNN_ATTR_OPERATION_BN_FINALIZE_EXP_AVERATE_FACTOR_DESC},
                   mean, variance, count);
    t.write(op, CUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_MEAN_DESC, std::move(mean));
    t.write(op, CUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_INV_STD_DESC, std::move(inverse));
    t.write(op, CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_SCALE_DESC, std::move(eq_scale));
    t.write(op, CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_BIAS_DESC, std::move(eq_bias));
}

/// Training: by the batch's mean and biased variance, in two passes; else by those given.
void normalize(Tensors& t, const Contents& op) {
    const Dims dims = dims_of(op, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC);
    Values x = t.read(op, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC);
    const Values scale = t.read(op, CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC),
                 bias = t.read(op, CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC);
    Values mean(scale.size()), inverse(scale.size());
    if (op.one(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_NORM_FWD_TRAINING) ==
        CUDNN_NORM_FWD_INFERENCE) {
        mean = t.read(op, CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC);
        inverse = t.read(op, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC);
    } else {
        const float count = static_cast<float>(x.size() / scale.size());
        const float epsilon = t.read(op, CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC)[0];
        Values variance(scale.size());
        for_each_by_channel(dims, [&](std::size_t c, std::size_t i) { mean[c] += x[i]; });
        for (float& m : mean) m /= count;
        for_each_by_channel(dims, [&](std::size_t c, std::size_t i) {
            variance[c] += (x[i] - mean[c]) * (x[i] - mean[c]);
        });
        for (std::size_t c = 0; c < scale.size(); ++c) {
            variance[c] /= count;
            inverse[c] = 1 / std::sqrt(variance[c] + epsilon);
        }
        update_running(t, op,
                       {CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC,
                        CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC,
                        CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC,
                        CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC,
                        CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC},
                       mean, variance, count);
        t.write(op, CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, mean);
        t.write(op, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, inverse);
    }
    for_each_by_channel(dims, [&](std::size_t c, std::size_t i) {
        x[i] = (x[i] - mean[c]) * inverse[c] * scale[c] + bias[c];
    });
    t.write(op, CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, std::move(x));
}

void normalize_backward(Tensors& t, const Contents& op) {
    const Dims dims = dims_of(op, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC);
    const Values x = t.read(op, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC),
                 dy = t.read(op, CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC),
                 mean = t.read(op, CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC),
                 inverse = t.read(op, CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC),
                 scale = t.read(op, CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC);
    Values dscale(scale.size()), dbias(scale.size()), dx(x.size());
    const float count = static_cast<float>(x.size() / scale.size());
    for_each_by_channel(dims, [&](std::size_t c, std::size_t i) {
        dscale[c] += dy[i] * ((x[i] - mean[c]) * inverse[c]);
        dbias[c] += dy[i];
    });
    for_each_by_channel(dims, [&](std::size_t c, std::size_t i) {
        const float h = (x[i] - mean[c]) * inverse[c];
        dx[i] = scale[c] * inverse[c] * (dy[i] - dbias[c] / count - h * (dscale[c] / count));
    });
    t.write(op, CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, std::move(dscale));
    t.write(op, CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, std::move(dbias));
    t.write(op, CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, std::move(dx));
}

}  // namespace gx::cuda_testing
