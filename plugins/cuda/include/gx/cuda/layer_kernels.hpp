// Kernels of layers that are not cuDNN's, as functions that queue them on a stream.
#pragma once

#include <cstdint>  // int64_t

#include <cuda_runtime_api.h>  // cudaStream_t

#include <gx/core/device.hpp>       // ForwardReport
#include <gx/core/element.hpp>      // fp32, fp16, bf16
#include <gx/core/rng.hpp>          // Rng
#include <gx/cuda/device_span.hpp>  // DeviceSpan
#include <gx/cuda/kernels.hpp>      // PixelShape
#include <gx/model/graph.hpp>       // ImageShape, Window

namespace gx::cuda {

// For all that follows:
// Shapes: activations (N, C, H, W) in memory as (N, H, W, C): rows of C channels, N * H * W of
//         them; in E, aligned to 16 bytes. A buffer may have room for more images than a batch has:
//         what a kernel writes is 0 there.
// Units:  a value in E is rounded once, as gx/model/compute.hpp says. A kernel that joins several
//         operations rounds after each, so that joining changes no bits.
// Errors: spans that do not fit break the contract; gx::Error where CUDA refuses a launch.
// Order:  equal inputs give equal bits on any GPU: no sum is in an order that hardware decides.
//         NaNs stay NaNs, their payloads are not promised.
// Cost:   nothing is allocated, and the host does not wait. Traffic: bytes of device memory an
//         element of the activation, where E has e bytes; what is read of each channel is left out.
// E is fp32, fp16 or bf16, not constrained: see kernels.hpp.

// ---- Batch norm --------------------------------------------------------------------------------

struct BatchNormShape {
    std::int64_t rows = 0;  ///< of the batch's images: N * H * W
    int channels = 0;
};

/// What forward leaves of each channel for backward.
struct alignas(16) ChannelNorm {
    float mean, mean_rest;       ///< their sum is the mean to twice the precision of a float
    float scale, shift;          ///< gamma * inverse; beta
    double exact_mean, inverse;  ///< inverse = 1 / sqrt(variance + epsilon)
};

/// Shapes: all (C).
struct BatchNormParameters {
    DeviceSpan<const float> gamma{}, beta{};
    DeviceSpan<float> mean{}, variance{};  ///< running; updated while training
    double epsilon = 1e-5, momentum = 0.1;
};

/// y = relu(norm(x) + residual), of which relu and residual may be left out; with residual_norms,
/// y = relu(norm(x) + norm(residual)).
/// Shapes: x, y and residual, which may be empty: (rows or more, C); y may be x or residual.
///         Without y the norms alone are computed, for the residual_norms of another layer, which
///         are (C) or empty.
///         mask: batch_norm_mask_bytes() of them where backward will need it, see there, or empty.
template <class E>
struct BatchNormMaps {
    DeviceSpan<const typename E::storage> x{}, residual{};
    DeviceSpan<const ChannelNorm> residual_norms{};
    DeviceSpan<typename E::storage> y{};
    DeviceSpan<std::uint8_t> mask{};
    bool relu = false;
};

/// Bytes of a mask, of a buffer of so many rows: a bit an element, rows of whole bytes.
[[nodiscard]] constexpr std::int64_t batch_norm_mask_bytes(const BatchNormShape& shape) {
    return shape.rows * ((shape.channels + 7) / 8);
}
/// Doubles of scratch memory for forward and backward; those of a batch serve smaller ones.
[[nodiscard]] std::int64_t batch_norm_scratch(const BatchNormShape& shape);

/// Normalises by the moments of the batch, and moves the running ones; a batch of 0 rows leaves
/// these.
/// Shapes: norms (C); scratch (batch_norm_scratch(shape) or more).
/// Order:  sums of x and x * x, which is exact, in double; ceil(rows / 512) blocks of rows, at most
///         512, as batch_norm.cu adds them: the shape alone decides.
/// Units:  the variance is right to 2^-46 (mean^2 + variance); the rest in float, from x - mean on.
/// Cost:   traffic 2 e read and e written; e more read with a residual, 1/8 written with a mask;
///         without y e read; and 32 bytes a channel and block. Three kernels, two without y. Three
///         operations in double an element: within the pace of memory on V100 and H100 by their
///         data sheets, not on GPUs with few units for double.
template <class E>
void batch_norm_train(cudaStream_t stream, const BatchNormShape& shape,
                      const BatchNormParameters& parameters, const BatchNormMaps<E>& maps,
                      DeviceSpan<ChannelNorm> norms, DeviceSpan<double> scratch);

/// The same by sums of x and x * x that are there in float. As of a convolution's epilogue.
/// Shapes: sums (2, C).
/// Units:  the variance is as right as the sums are to (mean^2 + variance) * rows; from there on as
///         above.
/// Cost:   traffic e read and e written, and as above for a residual and a mask. Two kernels.
template <class E>
void batch_norm_train(cudaStream_t stream, const BatchNormShape& shape,
                      const BatchNormParameters& parameters, const BatchNormMaps<E>& maps,
                      DeviceSpan<ChannelNorm> norms, DeviceSpan<const float> sums);

/// Normalises by the running moments. Shapes: norms (C), which are overwritten.
/// Cost:   traffic e read and e written; e more read with a residual. Two kernels.
template <class E>
void batch_norm_evaluate(cudaStream_t stream, const BatchNormShape& shape,
                         const BatchNormParameters& parameters, const BatchNormMaps<E>& maps,
                         DeviceSpan<ChannelNorm> norms);

/// The gradient of y is dy, or dy + addend, rounded to E as accumulate() does.
/// Shapes: x, dy, dx, and addend and residual_gradient, which may be empty: (rows or more, C); dx
///         or residual_gradient may be dy. mask: of forward, which a relu behind a residual needs;
///         where it is empty, relu is found again from x.
///         dgamma, dbeta (C): slices of the flat gradient.
template <class E>
struct BatchNormGradients {
    DeviceSpan<const typename E::storage> x{}, dy{}, addend{};
    DeviceSpan<const std::uint8_t> mask{};
    DeviceSpan<typename E::storage> dx{}, residual_gradient{};
    DeviceSpan<float> dgamma{}, dbeta{};
    bool relu = false;
};

/// Writes dx, dgamma, dbeta and the gradient of the residual, which is that of y behind the relu.
/// Shapes: norms as forward left them; scratch (batch_norm_scratch(shape) or more).
/// Order:  as forward: sums of dy and dy * x.
/// Cost:   traffic 4 e read and e written, and with an addend 2 e more read; with the gradient of a
///         residual e more written and, for an addend, e more read, not 2: what passes the relu is
///         stored where it is summed, and read there. With a mask 1/8 more read, without a residual
///         1/4: bits, not y, which would be 4 e. Sums as forward. Three kernels.
template <class E>
void batch_norm_backward(cudaStream_t stream, const BatchNormShape& shape,
                         DeviceSpan<const ChannelNorm> norms, const BatchNormGradients<E>& maps,
                         DeviceSpan<double> scratch);

// ---- Loss --------------------------------------------------------------------------------------

struct LossShape {
    int images = 0;  ///< of the batch
    int classes = 0;
    double smoothing = 0;
};

/// What forward leaves of each image.
struct ImageLoss {
    double log_sum_exp = 0, loss = 0;  ///< nats
    std::int64_t correct = 0;          ///< 1: the first of the largest logits is at the label
    std::int64_t top5 = 0;             ///< 1: fewer than five classes are before it
};

/// Labels of a batch. Shapes: first (images or more); second (images or more), or empty.
struct BatchLabels {
    DeviceSpan<const std::int32_t> first{};
    DeviceSpan<const SecondLabel> second{};
};

/// Softmax cross-entropy against smoothed labels, and the report of the batch.
/// Shapes: logits (images or more, classes); labels below classes; losses (images or more);
///         report (1).
/// Order:  in double. Classes: thread t of 256 adds t, t + 256 ...; 32 threads in a row as a tree,
///         lane l plus lane l + 16, then 8, 4, 2, 1; the eight sums likewise. Images likewise.
///         exp and log are sums and products of doubles, the same on host and GPU.
/// Cost:   logits are read four times, of which three from cache. Two kernels.
template <class E>
void softmax_cross_entropy(cudaStream_t stream, const LossShape& shape,
                           DeviceSpan<const typename E::storage> logits, const BatchLabels& labels,
                           DeviceSpan<ImageLoss> losses, DeviceSpan<ForwardReport> report);

/// dlogits = scale * (softmax - target), rounded once.
/// Shapes: losses of forward; scale (1), in device memory; dlogits as logits, and may be these.
/// Cost:   traffic e read and e written.
template <class E>
void softmax_cross_entropy_backward(cudaStream_t stream, const LossShape& shape,
                                    DeviceSpan<const typename E::storage> logits,
                                    const BatchLabels& labels, DeviceSpan<const ImageLoss> losses,
                                    DeviceSpan<const float> scale,
                                    DeviceSpan<typename E::storage> dlogits);

// ---- Dropout -----------------------------------------------------------------------------------

/// Dropout: y = x / (1 - rate), or 0 where draws.uniform(i) < rate, for element i of (N, C, H, W).
/// Backward is the same function, of dy. `of_rank` is Rng(seed, op.name).at(rank), and draws is
/// of_rank.at(draw[0]), of the batch.
/// Shapes: shape of the batch; draw (1); x and y (images or more, pixels, C); y may be x.
/// Cost:   traffic e read and e written; no mask is kept: 10 rounds of Philox an element.
template <class E>
void dropout(cudaStream_t stream, const PixelShape& shape, const Rng& of_rank,
             DeviceSpan<const std::uint64_t> draw, double rate,
             DeviceSpan<const typename E::storage> x, DeviceSpan<typename E::storage> y);

// ---- Average pooling ---------------------------------------------------------------------------

struct PoolShape {
    std::int64_t images = 0;  ///< of the batch
    ImageShape input{}, output{};
    Window window{};
};

/// Average pooling: y = sum of the window's part inside the image / count. The count is of the
/// pixels there, or of all pixels of the window where it counts its padding.
/// Shapes: x (images or more, input) and y (as many, output).
/// Order:  sums row by row, left to right, in double; the quotient is rounded once. The reference
///         device's bits, but for the payloads of NaNs.
/// Cost:   traffic e read, once where windows overlap if caches keep their rows, and e written. A
///         thread has 8 channels, 4 loads of 16 bytes in flight, or one channel where these are not
///         in eights. A conversion to double and an addition a pixel of a window: by data sheets of
///         V100 and H100 within the pace of memory where windows do not overlap, and half of it for
///         3x3 windows on each pixel, not measured; an H100 averages maps of 7x7 at 2.2 TB/s.
template <class E>
void average_pool(cudaStream_t stream, const PoolShape& shape,
                  DeviceSpan<const typename E::storage> x, DeviceSpan<typename E::storage> y);
/// dx = sum, over the windows that cover a pixel, of dy / the window's count.
/// Shapes: dy as y, dx as x.
/// Order:  windows row by row, left to right; each quotient is rounded to double, and the sum of
///         these is rounded once. The reference device's bits where a window has less than 2^18
///         pixels, but for the payloads of NaNs.
/// Cost:   traffic e written; a dy is read for each pixel of its window, from cache but the first
///         time. No atomics: a thread has 8 channels of dx, or one. Four operations in double a
///         window that covers a pixel, and about 30 instructions an element beside: an H100 writes
///         the gradient of maps of 7x7 at 0.7 TB/s, a fifth of its memory's pace.
template <class E>
void average_pool_backward(cudaStream_t stream, const PoolShape& shape,
                           DeviceSpan<const typename E::storage> dy,
                           DeviceSpan<typename E::storage> dx);

// ---- ReLU and additions ------------------------------------------------------------------------

// Shapes: maps of one length, any from 0, in whole buffers; what is written may be what is read.
//         Aligned to less than 16 bytes, too.
// Order:  the reference device's bits, but for the payloads of NaNs and a gradient of -0, which
//         stays.
// Cost:   one pass: 16 bytes a thread at a time where all maps are aligned to them, else one
//         element.

/// y = x where x > 0, else 0; a NaN stays. Cost: traffic e read and e written.
template <class E>
void relu(cudaStream_t stream, DeviceSpan<const typename E::storage> x,
          DeviceSpan<typename E::storage> y);
/// dx = dy where y > 0, else 0. Cost: traffic 2 e read and e written.
template <class E>
void relu_backward(cudaStream_t stream, DeviceSpan<const typename E::storage> dy,
                   DeviceSpan<const typename E::storage> y, DeviceSpan<typename E::storage> dx);
/// y = a + b. Cost: traffic 2 e read and e written.
template <class E>
void add_maps(cudaStream_t stream, DeviceSpan<const typename E::storage> a,
              DeviceSpan<const typename E::storage> b, DeviceSpan<typename E::storage> y);

// ---- Images ------------------------------------------------------------------------------------

/// to = encode(images), channels last; channels from C on are 0.
/// Shapes: images (images, C, H * W); to (images or more, H * W, padded_channels), which is C or
///         more.
/// Cost:   traffic 4 bytes read an element of the images and e written an element of `to`.
template <class E>
void pack_images(cudaStream_t stream, const PixelShape& shape, int padded_channels,
                 DeviceSpan<const float> images, DeviceSpan<typename E::storage> to);
/// to = encode(values[channel, pixel value]), as normalise_into; else as pack_images.
/// Shapes: pixels (images, C, H * W); values (C, 256).
/// Cost:   as pack_images, of 1 byte read.
template <class E>
void pack_pixels(cudaStream_t stream, const PixelShape& shape, int padded_channels,
                 DeviceSpan<const std::uint8_t> pixels, DeviceSpan<const float> values,
                 DeviceSpan<typename E::storage> to);

}  // namespace gx::cuda
