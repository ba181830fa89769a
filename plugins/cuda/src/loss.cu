// Softmax cross-entropy: a block an image, and one block for the report.
#include <gx/cuda/layer_kernels.hpp>

#include <limits>  // infinity

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/cuda/kernel.hpp>    // GX_KERNEL, launch

#include "block_sum.hpp"
#include "packs.hpp"
#include "plain_math.hpp"

namespace gx::cuda {
namespace {

constexpr unsigned loss_threads = reduction_threads;

/// The largest logit so far, and the first class that has it; no NaN is larger than another.
struct Best {
    float logit = -std::numeric_limits<float>::infinity();
    int at = 0x7fffffff;
    GX_DEVICE void meet(float x, int k) {
        if (x > logit || (x == logit && k < at)) {
            logit = x;
            at = k;
        }
    }
};
GX_DEVICE Best warp_best(Best b) {
    for (unsigned by = 16; by > 0; by /= 2) {
        const float logit = __shfl_down_sync(all_lanes, b.logit, by);
        const int at = __shfl_down_sync(all_lanes, b.at, by);
        b.meet(logit, at);
    }
    return b;
}
/// Of a block, in every thread.
GX_DEVICE Best block_best(Best b) {
    GX_SHARED(float, logits, block_warps + 1);
    GX_SHARED(int, places, block_warps + 1);
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    b = warp_best(b);
    if (lane == 0) {
        logits[warp] = b.logit;
        places[warp] = b.at;
    }
    GX_SYNC_BLOCK();
    if (warp == 0) {
        Best mine;
        if (lane < block_warps) {
            mine.logit = logits[lane];
            mine.at = places[lane];
        }
        mine = warp_best(mine);
        if (lane == 0) {
            logits[block_warps] = mine.logit;
            places[block_warps] = mine.at;
        }
    }
    GX_SYNC_BLOCK();
    b.logit = logits[block_warps];
    b.at = places[block_warps];
    return b;
}
/// block_sum in every thread; to be called as often as one likes.
GX_DEVICE double sum_for_all(double v) {
    GX_SHARED(double, sum, 1);
    v = block_sum(v);
    if (threadIdx.x == 0) sum[0] = v;
    GX_SYNC_BLOCK();
    v = sum[0];
    GX_SYNC_BLOCK();  // the next call writes it
    return v;
}

GX_DEVICE SecondLabel second_of(DeviceSpan<const SecondLabel> second, std::int64_t image) {
    return second.size > 0 ? second[image] : SecondLabel{};
}

/// As reference::cross_entropy and reference::predicted.
template <class E>
GX_KERNEL loss_kernel(int classes, double smoothing, DeviceSpan<const typename E::storage> logits,
                      DeviceSpan<const std::int32_t> labels, DeviceSpan<const SecondLabel> seconds,
                      DeviceSpan<ImageLoss> losses) {
    const std::int64_t first = std::int64_t{blockIdx.x} * classes;
    const auto thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(loss_threads);
    Best best;
    for (int k = thread; k < classes; k += threads) best.meet(decoded<E>(logits[first + k]), k);
    best = block_best(best);
    double sum = 0;
    for (int k = thread; k < classes; k += threads)
        sum += exponential(double{decoded<E>(logits[first + k])} - best.logit);
    const double log_sum = best.logit + logarithm(sum_for_all(sum));
    double away = 0;  // from all classes, which smoothing draws to
    if (smoothing > 0) {
        for (int k = thread; k < classes; k += threads)
            away += log_sum - decoded<E>(logits[first + k]);
        away = sum_for_all(away);
    }
    const SecondLabel second = second_of(seconds, blockIdx.x);
    const int label = second.share > 0.5f ? second.label : labels[blockIdx.x];  // counted_label
    const float label_logit = decoded<E>(logits[first + label]);
    int before = 0;  // classes in front of the label
    for (int k = thread; k < classes; k += threads) {
        const float x = decoded<E>(logits[first + k]);
        before += x > label_logit || (x == label_logit && k < label) ? 1 : 0;
    }
    const double place = sum_for_all(before);
    if (threadIdx.x != 0) return;
    const float zeroth = decoded<E>(logits[first]);
    const int predicted = zeroth == zeroth && best.at < classes ? best.at : 0;
    double of_label = log_sum - decoded<E>(logits[first + labels[blockIdx.x]]);
    if (second.share > 0) {
        const double of_second = log_sum - decoded<E>(logits[first + second.label]);
        const double share = second.share;
        of_label = share < 1 ? (1 - share) * of_label + share * of_second : of_second;
    }
    double loss = smoothing / classes * away;
    if (smoothing < 1) loss += (1 - smoothing) * of_label;
    losses[blockIdx.x] = {log_sum, loss, predicted == label ? 1 : 0, place < 5 ? 1 : 0};
}

GX_KERNEL report_kernel(DeviceSpan<const ImageLoss> losses, DeviceSpan<ForwardReport> report) {
    double loss = 0;
    std::int64_t correct = 0, top5 = 0;
    for (std::int64_t i = threadIdx.x; i < losses.size; i += blockDim.x) {
        loss += losses[i].loss;
        correct += losses[i].correct;
        top5 += losses[i].top5;
    }
    loss = block_sum(loss);
    correct = block_sum(correct);
    GX_SYNC_BLOCK();  // the next sum is of the same type
    top5 = block_sum(top5);
    if (threadIdx.x == 0) report[0] = {loss, correct, loss - loss == 0, top5};
}

/// As reference::cross_entropy_backward.
template <class E>
GX_KERNEL loss_gradient_kernel(int classes, double smoothing,
                               DeviceSpan<const typename E::storage> logits,
                               DeviceSpan<const std::int32_t> labels,
                               DeviceSpan<const SecondLabel> seconds,
                               DeviceSpan<const ImageLoss> losses, DeviceSpan<const float> scale,
                               DeviceSpan<typename E::storage> dlogits) {
    for (std::int64_t i = global_thread(); i < dlogits.size; i += all_threads()) {
        const std::int64_t image = i / classes;
        double gradient = 0;
        if (image < losses.size) {
            const double share = exponential(decoded<E>(logits[i]) - losses[image].log_sum_exp);
            const SecondLabel second = second_of(seconds, image);
            const double of_second = second.share;
            const double of_labels = (i % classes == labels[image] ? 1 - of_second : 0.0) +
                                     (i % classes == second.label ? of_second : 0.0);
            gradient = (share - (smoothing / classes + (1 - smoothing) * of_labels)) * scale[0];
        }
        dlogits[i] = encoded_once<E>(gradient);
    }
}

void expect_loss(const LossShape& shape, std::int64_t logits, const BatchLabels& labels,
                 std::int64_t losses) {
    GX_EXPECT(shape.images >= 0 && shape.classes > 0, "a loss has images of classes");
    GX_EXPECT(logits % shape.classes == 0 && logits / shape.classes >= shape.images,
              "logits have whole rows of classes, those of the batch or more");
    GX_EXPECT(labels.first.size >= shape.images && losses >= shape.images,
              "a label and a loss an image");
    GX_EXPECT(labels.second.size == 0 || labels.second.size >= shape.images,
              "a second label an image, or none");
}

}  // namespace

template <class E>
void softmax_cross_entropy(cudaStream_t stream, const LossShape& shape,
                           DeviceSpan<const typename E::storage> logits, const BatchLabels& labels,
                           DeviceSpan<ImageLoss> losses, DeviceSpan<ForwardReport> report) {
    expect_loss(shape, logits.size, labels, losses.size);
    GX_EXPECT(report.size == 1, "a loss has one report");
    const DeviceSpan<ImageLoss> of_batch = losses.subspan(0, shape.images);
    launch("loss", {static_cast<unsigned>(shape.images), loss_threads, stream}, loss_kernel<E>,
           shape.classes, shape.smoothing, logits, labels.first, labels.second, of_batch);
    launch("report", {1, loss_threads, stream}, report_kernel, of_batch, report);
}

template <class E>
void softmax_cross_entropy_backward(cudaStream_t stream, const LossShape& shape,
                                    DeviceSpan<const typename E::storage> logits,
                                    const BatchLabels& labels, DeviceSpan<const ImageLoss> losses,
                                    DeviceSpan<const float> scale,
                                    DeviceSpan<typename E::storage> dlogits) {
    expect_loss(shape, logits.size, labels, losses.size);
    GX_EXPECT(dlogits.size == logits.size && scale.size == 1,
              "a gradient for each logit, and one scale");
    launch("gradient of the loss", grid_for(stream, dlogits.size), loss_gradient_kernel<E>,
           shape.classes, shape.smoothing, logits, labels.first, labels.second,
           losses.subspan(0, shape.images), scale, dlogits);
}

#define GX_LOSS(E)                                                                            \
    template void softmax_cross_entropy<E>(cudaStream_t, const LossShape&,                    \
                                           DeviceSpan<const E::storage>, const BatchLabels&,  \
                                           DeviceSpan<ImageLoss>, DeviceSpan<ForwardReport>); \
    template void softmax_cross_entropy_backward<E>(                                          \
        cudaStream_t, const LossShape&, DeviceSpan<const E::storage>, const BatchLabels&,     \
        DeviceSpan<const ImageLoss>, DeviceSpan<const float>, DeviceSpan<E::storage>);
GX_LOSS(fp32)
GX_LOSS(fp16)
GX_LOSS(bf16)

}  // namespace gx::cuda
