// Kernels of a training step, as functions that queue them on a CUDA stream.
#pragma once

#include <cstddef>  // byte
#include <cstdint>  // int64_t
#include <span>     // slices
#include <vector>   // pieces

#include <cuda_runtime_api.h>  // cudaStream_t

#include <gx/core/device.hpp>       // ParameterSlice
#include <gx/core/element.hpp>      // fp32, fp16, bf16
#include <gx/core/rng.hpp>          // Rng
#include <gx/cuda/device_span.hpp>  // DeviceSpan
#include <gx/memory/memory.hpp>     // Flag

namespace gx::cuda {

// For all that follows:
// Shapes: spans of equal lengths, any length from 0, unless said otherwise.
// Errors: other lengths break the contract; gx::Error where CUDA refuses a launch.
// Order:  bit for bit what the host's functions of the same names give, whatever GPU and grid: no
//         sum is in an order that hardware decides. Payloads of NaNs are promised where a ring
//         sums: accumulate, decode_add.
// Cost:   one pass over the spans; nothing is allocated, and the host does not wait. Conversions
//         move 16 bytes of the wider elements a thread at a time where all spans are aligned to
//         such packs, and one element where they are not.

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
/// The same bytes: cudaMemcpyAsync within the device. Errors: gx::Error.
void copy_bytes(cudaStream_t stream, const void* from, std::int64_t from_bytes, void* to,
                std::int64_t to_bytes);
/// Swaps a and b where the condition is not 0. Shapes: condition (1).
void swap_if(cudaStream_t stream, DeviceSpan<const Flag> condition, DeviceSpan<float> a,
             DeviceSpan<float> b);
/// to = value, for float, double, std::uint16_t and unsigned long long.
template <class T>
void fill(cudaStream_t stream, DeviceSpan<T> to, T value);

// ---- Reductions --------------------------------------------------------------------------------

/// Blocks of a reduction, and length of the scratch memory that it writes.
inline constexpr int reduction_blocks = 256, reduction_threads = 256;

/// result = 1 where every element is finite, else 0.
/// Shapes: scratch (reduction_blocks), result (1).
void all_finite(cudaStream_t stream, DeviceSpan<const float> values,
                DeviceSpan<std::uint32_t> scratch, DeviceSpan<Flag> result);

/// against = 1 where an element is not finite, and else what it was.
/// Shapes: scratch (reduction_blocks), against (1).
void find_overflow(cudaStream_t stream, DeviceSpan<const float> values,
                   DeviceSpan<std::uint32_t> scratch, DeviceSpan<float> against);
/// result = 1 where the value is 0, else 0. Shapes: (1).
void is_zero(cudaStream_t stream, DeviceSpan<const float> value, DeviceSpan<Flag> result);

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

/// What of an update is another in each step.
struct UpdateStep {
    float rate = 0;                          ///< the learning rate
    float unscale = 1;                       ///< 1 / loss scale
    float correction1 = 1, correction2 = 1;  ///< Adam's 1 - beta^t, rounded to float
    Flag applied = 1;                        ///< 0: the update changes nothing
    Flag first = 0;                          ///< 1: no update was before
};
struct UpdateStart {
    float beta1 = 0, beta2 = 0;   ///< Adam's; 0: no correction
    bool counts_skipped = false;  ///< an update that is not applied has a number too
};
/// Writes what an update reads, where t is `updates` and 1, and then counts the update.
/// Shapes: all (1).
void begin_update(cudaStream_t stream, DeviceSpan<const bool> applied,
                  DeviceSpan<const float> loss_scale, DeviceSpan<const float> rate,
                  const UpdateStart& start, DeviceSpan<std::int64_t> updates,
                  DeviceSpan<UpdateStep> step);
/// The same of an update that comes, whose rate is not known and that will be applied.
void preview_update(cudaStream_t stream, DeviceSpan<const float> loss_scale,
                    const UpdateStart& start, DeviceSpan<const std::int64_t> updates,
                    DeviceSpan<UpdateStep> step);

/// Vectors of an update, in the device's layout. Elements outside of all pieces stay as they are.
/// Shapes: step (1); parameters, gradients and each vector of state (elements).
struct UpdateVectors {
    DeviceSpan<const UpdatePiece> pieces{};
    DeviceSpan<const UpdateStep> step{};
    DeviceSpan<float> parameters{};
    DeviceSpan<const float> gradients{};
};

struct SgdStep {
    float momentum;
    bool nesterov = false, rate_in_velocity = false;
};
/// Shapes: decays (parameters): Sgd's weight decay of each.
void sgd(cudaStream_t stream, const UpdateVectors& vectors, DeviceSpan<float> momentum,
         DeviceSpan<const float> decays, const SgdStep& step);

struct AdamStep {
    float beta1, beta2, epsilon;
};
/// Shapes: decays (parameters): the weight decay of each.
void adam(cudaStream_t stream, const UpdateVectors& vectors, DeviceSpan<float> m,
          DeviceSpan<float> v, DeviceSpan<const float> decays, const AdamStep& step);
void adamw(cudaStream_t stream, const UpdateVectors& vectors, DeviceSpan<float> m,
           DeviceSpan<float> v, DeviceSpan<const float> decays, const AdamStep& step);

// WeightAverage's average of the elements of the pieces. Shapes: average (elements).

/// average = parameters, where the update that has begun is the first.
void begin_average(cudaStream_t stream, const UpdateVectors& vectors, DeviceSpan<float> average);
/// average = decay * average + (1 - decay) * parameters.
void move_average(cudaStream_t stream, const UpdateVectors& vectors, DeviceSpan<float> average,
                  float decay);

/// 64-bit words of a squared norm: 18 of the sum, word k counting 2^(32 k - 298), and the number of
/// elements that are not finite. As SquaredSum::words(), but carries may wait in each word.
inline constexpr int norm_words = 19;

/// Adds the squares of the elements of the pieces to the words of their parameters.
/// Shapes: words (parameters, norm_words), zero before the first of a step.
/// Order:  none shows: the sums are exact, by additions of integers.
void add_squared_norms(cudaStream_t stream, DeviceSpan<const UpdatePiece> pieces,
                       DeviceSpan<const float> values, DeviceSpan<unsigned long long> words);

/// The same in one sum of all pieces. Shapes: words (norm_words).
void add_squared_sum(cudaStream_t stream, DeviceSpan<const UpdatePiece> pieces,
                     DeviceSpan<const float> values, DeviceSpan<unsigned long long> words);
/// Makes `unscale` smaller where the norm of all gradients, times it, is above max_norm: what
/// ClipByGlobalNorm does. Shapes: words (norm_words), of add_squared_sum; step (1).
void clip_step(cudaStream_t stream, DeviceSpan<const unsigned long long> words, float max_norm,
               DeviceSpan<UpdateStep> step);

// Two SquaredSums for each parameter, of itself and of its gradient (Lars) or update (Lamb), in
// doubles that are integers; of ClipByGlobalNorm one, of its gradient.
// Shapes: words (2, parameters, norm_words), of add_squared_norms; norms (parameters, 2,
//         norm_words). Of one sum: (parameters, norm_words) both.

/// Adds the words to the norms of the parameters that adapt. Shapes: adapts (parameters); empty:
/// one sum of every parameter.
void store_norms(cudaStream_t stream, DeviceSpan<const Flag> adapts,
                 DeviceSpan<const unsigned long long> words, DeviceSpan<double> norms);
/// sums = the norms of all ranks, one rank's behind the other's, added up.
void sum_norms(cudaStream_t stream, DeviceSpan<const double> all, DeviceSpan<double> sums);
/// The words of norms.
void load_norms(cudaStream_t stream, DeviceSpan<const double> norms,
                DeviceSpan<unsigned long long> words);
/// The words of one sum of all norms. Shapes: norms (parameters, norm_words); words (norm_words).
void load_sum(cudaStream_t stream, DeviceSpan<const double> norms,
              DeviceSpan<unsigned long long> words);

struct LarsStep {
    float momentum, weight_decay, trust, epsilon;
};
/// Writes the rate and weight decay of each parameter: the update's rate * trust ratio, rounded to
/// float.
/// Shapes: adapts (parameters), 1 where Lars has a trust ratio; words as of add_squared_norms;
///         update (1); rates and decays (parameters).
void lars_rates(cudaStream_t stream, DeviceSpan<const Flag> adapts,
                DeviceSpan<const unsigned long long> parameter_words,
                DeviceSpan<const unsigned long long> gradient_words,
                DeviceSpan<const UpdateStep> update, const LarsStep& step, DeviceSpan<float> rates,
                DeviceSpan<float> decays);
/// Shapes: rates and decays (parameters), of lars_rates.
void lars(cudaStream_t stream, const UpdateVectors& vectors, DeviceSpan<float> momentum,
          DeviceSpan<const float> rates, DeviceSpan<const float> decays, const LarsStep& step);

struct LambStep {
    AdamStep moments;
    float weight_decay, max_ratio;
};
/// Adds the squares of Lamb's updates u to the words of their parameters. They are of the elements
/// of the pieces, and added as by add_squared_norms; moments and parameters stay as they are.
void add_squared_updates(cudaStream_t stream, const UpdateVectors& vectors,
                         DeviceSpan<const float> m, DeviceSpan<const float> v, const LambStep& step,
                         DeviceSpan<unsigned long long> words);
/// As lars_rates, of Lamb.
void lamb_rates(cudaStream_t stream, DeviceSpan<const Flag> adapts,
                DeviceSpan<const unsigned long long> parameter_words,
                DeviceSpan<const unsigned long long> update_words,
                DeviceSpan<const UpdateStep> update, const LambStep& step, DeviceSpan<float> rates,
                DeviceSpan<float> decays);
/// Shapes: rates and decays (parameters), of lamb_rates.
void lamb(cudaStream_t stream, const UpdateVectors& vectors, DeviceSpan<float> m,
          DeviceSpan<float> v, DeviceSpan<const float> rates, DeviceSpan<const float> decays,
          const LambStep& step);

// ---- Decisions: gx/trainer/rank/decisions.hpp --------------------------------------------------

// D: Decisions of StaticLossScale or DynamicLossScale. Shapes: (1) of all.

/// BeginStep<D>.
template <class D>
void begin_step(cudaStream_t stream, float ranks, float of_all, DeviceSpan<D> decisions,
                DeviceSpan<float> scale);
/// decide(decisions, finite): `finite` becomes whether the mean is applied.
template <class D>
void decide(cudaStream_t stream, DeviceSpan<D> decisions, DeviceSpan<Flag> finite);
/// RecordOutcome<D>.
template <class D, class Outcome>
void record_outcome(cudaStream_t stream, DeviceSpan<const D> decisions,
                    DeviceSpan<const float> scale, DeviceSpan<const ForwardReport> report,
                    DeviceSpan<Outcome> out);

// ---- Sparse gradients: plugins/top_k -----------------------------------------------------------

struct IndexedValue {
    std::uint32_t index;
    float value;
};
inline constexpr std::int64_t selection_words = 1024;  ///< of scratch memory

/// after = values / loss scale + before; the elements of `after` with the largest magnitudes, of
/// equal ones the first, go to `chosen` in ascending order of their indices, and become 0. NaN is
/// larger than infinity.
/// Shapes: loss_scale (1); scratch (selection_words); chosen: at most as long as values.
/// Cost:   a pass that adds, four that read, one that counts and one that writes.
void choose_largest(cudaStream_t stream, DeviceSpan<const float> loss_scale,
                    DeviceSpan<const float> values, DeviceSpan<const float> before,
                    DeviceSpan<float> after, DeviceSpan<std::uint32_t> scratch,
                    DeviceSpan<IndexedValue> chosen);
/// bucket = loss scale / ranks * the sum of `ranks` equal parts of `all`. It is of what they hold,
/// the first part first. An index beyond the bucket makes its first element NaN.
/// Shapes: loss_scale (1); scratch (selection_words).
void add_indexed(cudaStream_t stream, int ranks, DeviceSpan<const float> loss_scale,
                 DeviceSpan<const IndexedValue> all, DeviceSpan<std::uint32_t> scratch,
                 DeviceSpan<float> bucket);

// ---- Integers in blocks: plugins/quantized, Bits 8 and 4 ----------------------------------------

/// number += more. Shapes: number (1).
void count_gradients(cudaStream_t stream, DeviceSpan<std::uint64_t> number, std::uint64_t more);
/// The stream of draws of a message: stream.at(number of the gradient).at(substream).
struct GradientDraws {
    Rng stream;
    std::uint64_t substream;
};
/// BlockCodec<Bits>::encode. Shapes: gradient (1); out (bytes(values)).
template <int Bits>
void quantize(cudaStream_t stream, DeviceSpan<const std::uint64_t> gradient,
              DeviceSpan<const float> values, std::int64_t offset, const GradientDraws& draws,
              DeviceSpan<std::byte> out);
/// BlockCodec<Bits>::decode. Shapes: message (bytes(values)).
template <int Bits>
void dequantize(cudaStream_t stream, DeviceSpan<const std::byte> message, DeviceSpan<float> values);
/// chunk = the mean of `ranks` messages of it, each `longest` bytes behind the one before; summed
/// in double from the first on.
template <int Bits>
void average_quantized(cudaStream_t stream, DeviceSpan<const std::byte> messages,
                       std::int64_t longest, int ranks, DeviceSpan<float> chunk);

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
