// Kernels of a training step, as functions that queue them on a CUDA stream.
#pragma once

#include <cstdint>  // int64_t
#include <span>     // slices
#include <vector>   // pieces

#include <cuda_runtime_api.h>  // cudaStream_t

#include <gx/core/device.hpp>       // ParameterSlice
#include <gx/core/element.hpp>      // fp32, fp16, bf16
#include <gx/cuda/device_span.hpp>  // DeviceSpan
#include <gx/memory/memory.hpp>     // Flag

namespace gx::cuda {

// For all that follows:
// Shapes: spans of equal lengths, any length from 0, unless said otherwise.
// Errors: other lengths break the contract; gx::Error where CUDA refuses a launch.
// Order:  bit for bit what the host's functions of the same names give, whatever GPU and grid: no
//         sum is in an order that hardware decides. Payloads of NaNs are promised where a ring
//         sums: accumulate, decode_add.
// Cost:   one pass over the spans; nothing is allocated, and the host does not wait.

// E is fp32, fp16 or bf16. It is not constrained: clang 19 and g++ 12 mangle constraints unlike,
// and a program of one links kernels of the other.

// ---- Conversions: gx/core/convert.hpp ----------------------------------------------------------

/// to = encode(from).
template <class E>
void encode(cudaStream_t stream, DeviceSpan<const float> from, DeviceSpan<typename E::storage> to);
/// to = decode(from).
template <class E>
void decode(cudaStream_t stream, DeviceSpan<const typename E::storage> from, DeviceSpan<float> to);
/// to = encode(from * factor).
template <class E>
void encode_scaled(cudaStream_t stream, DeviceSpan<const float> from, float factor,
                   DeviceSpan<typename E::storage> to);
/// to = decode(from) * factor.
template <class E>
void decode_scaled(cudaStream_t stream, DeviceSpan<const typename E::storage> from, float factor,
                   DeviceSpan<float> to);
/// mine = encode(decode(mine) + decode(received)); of two NaNs mine stays.
template <class E>
void accumulate(cudaStream_t stream, DeviceSpan<const typename E::storage> received,
                DeviceSpan<typename E::storage> mine);
/// mine = mine + decode(received).
template <class E>
void decode_add(cudaStream_t stream, DeviceSpan<const typename E::storage> received,
                DeviceSpan<float> mine);

// ---- Whole vectors: gx/memory/kernels.hpp ------------------------------------------------------

/// values = values * factor.
void scale(cudaStream_t stream, DeviceSpan<float> values, float factor);
/// to = from, for float and std::uint16_t.
template <class T>
void copy(cudaStream_t stream, DeviceSpan<const T> from, DeviceSpan<T> to);
/// to = value, for float, std::uint16_t and unsigned long long.
template <class T>
void fill(cudaStream_t stream, DeviceSpan<T> to, T value);

// ---- Reductions --------------------------------------------------------------------------------

/// Blocks of a reduction, and length of the scratch memory that it writes.
inline constexpr int reduction_blocks = 256, reduction_threads = 256;

/// result = 1 where every element is finite, else 0.
/// Shapes: scratch (reduction_blocks), result (1).
void all_finite(cudaStream_t stream, DeviceSpan<const float> values,
                DeviceSpan<std::uint32_t> scratch, DeviceSpan<Flag> result);

/// result = the sum of values, in float.
/// Shapes: scratch (reduction_blocks), result (1).
/// Order:  thread t of all T = 65,536 adds elements t, t + T, t + 2 T ... to 0; 32 of them in a row
///         are added as a tree, lane l plus lane l + 16, then 8, 4, 2, 1; the eight sums of a block
///         likewise, with zeros for lanes 8 to 31; thread t of 256 takes the sum of block t, and
///         these are added in the same way.
void sum(cudaStream_t stream, DeviceSpan<const float> values, DeviceSpan<float> scratch,
         DeviceSpan<float> result);

// ---- Optimizers: gx/optimizer/ -----------------------------------------------------------------

/// A part of a slice: what one block of an update works on.
struct UpdatePiece {
    std::int64_t offset = 0;  ///< elements
    std::int32_t count = 0;   ///< elements, at most piece_elements_max
    std::int32_t parameter = 0;
};
/// Squares of as many floats fit in 64 bits, exponent by exponent.
inline constexpr std::int32_t piece_elements_max = 32'768;

/// The slices, cut: made once, and copied to the device.
[[nodiscard]] std::vector<UpdatePiece> update_pieces(std::span<const ParameterSlice> slices);

/// Vectors of an update, in the device's layout. Elements outside of all pieces stay as they are.
/// Shapes: parameters, gradients and each vector of state (elements).
struct UpdateVectors {
    DeviceSpan<const UpdatePiece> pieces{};
    DeviceSpan<float> parameters{};
    DeviceSpan<const float> gradients{};
};

struct SgdStep {
    float unscale, momentum, rate;
    bool nesterov = false;
};
/// Shapes: decays (parameters): Sgd's weight decay of each.
void sgd(cudaStream_t stream, const UpdateVectors& vectors, DeviceSpan<float> momentum,
         DeviceSpan<const float> decays, const SgdStep& step);

/// The numbers of AdamW's formula; rest is 1 - beta and correction 1 - beta^t, rounded to float.
struct AdamWStep {
    float unscale, rate, beta1, rest1, beta2, rest2, correction1, correction2, epsilon;
};
/// Shapes: decays (parameters): AdamW's weight decay of each.
void adamw(cudaStream_t stream, const UpdateVectors& vectors, DeviceSpan<float> m,
           DeviceSpan<float> v, DeviceSpan<const float> decays, const AdamWStep& step);

/// 64-bit words of a squared norm: 18 of the sum, word k counting 2^(32 k - 298), and the number of
/// elements that are not finite. As SquaredSum::words(), but carries may wait in each word.
inline constexpr int norm_words = 19;

/// Adds the squares of the elements of the pieces to the words of their parameters.
/// Shapes: words (parameters, norm_words), zero before the first of a step.
/// Order:  none shows: the sums are exact, by additions of integers.
void add_squared_norms(cudaStream_t stream, DeviceSpan<const UpdatePiece> pieces,
                       DeviceSpan<const float> values, DeviceSpan<unsigned long long> words);

struct LarsStep {
    float unscale, momentum, rate, weight_decay, trust, epsilon;
};
/// Writes the rate and weight decay of each parameter: rate * trust ratio, rounded to float.
/// Shapes: adapts (parameters), 1 where Lars has a trust ratio; words as of add_squared_norms;
///         rates and decays (parameters).
void lars_rates(cudaStream_t stream, DeviceSpan<const Flag> adapts,
                DeviceSpan<const unsigned long long> parameter_words,
                DeviceSpan<const unsigned long long> gradient_words, const LarsStep& step,
                DeviceSpan<float> rates, DeviceSpan<float> decays);
/// Shapes: rates and decays (parameters), of lars_rates.
void lars(cudaStream_t stream, const UpdateVectors& vectors, DeviceSpan<float> momentum,
          DeviceSpan<const float> rates, DeviceSpan<const float> decays, const LarsStep& step);

// ---- Images ------------------------------------------------------------------------------------

struct PixelShape {
    std::int64_t images = 0;
    int channels = 0, pixels = 0;  ///< of an image: C, H * W
};
enum class ImageLayout : unsigned char { channels_first, channels_last };

/// to = encode(values[channel, pixel value]), as normalise_into: the table is rounded once.
/// Shapes: pixels (images, C, H * W) as loaders give them; values (C, 256); to as many as pixels,
///         (images, C, H * W) or, channels_last, (images, H * W, C).
template <class E>
void normalise(cudaStream_t stream, PixelShape shape, ImageLayout layout,
               DeviceSpan<const std::uint8_t> pixels, DeviceSpan<const float> values,
               DeviceSpan<typename E::storage> to);

}  // namespace gx::cuda
