// Batch norm: sums over blocks of rows, then over the blocks, then each element.
#include <gx/cuda/layer_kernels.hpp>

#include <algorithm>  // clamp, max
#include <bit>        // bit_ceil
#include <cmath>      // sqrt

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/cuda/kernel.hpp>    // GX_KERNEL, launch

#include "block_sum.hpp"
#include "channel_line.hpp"
#include "packs.hpp"

namespace gx::cuda {
namespace {

constexpr int norm_threads = 256, norm_warps = norm_threads / 32, tile_channels = 64;
constexpr std::int64_t blocks_most = 2048;                          // of kernels without sums
constexpr std::int64_t sum_rows_least = 512, sum_blocks_max = 512;  // sums are 3 % of the traffic

/// A block has a tile of channels and some rows: `lanes` threads in a row take a pack each, and 256
/// / lanes rows are in work at a time.
struct Tiles {
    std::int64_t rows, all_rows;  ///< of the batch, of the buffer
    std::int64_t block_rows;
    int groups, lanes, tiles;  ///< packs of a row; of them in a tile; tiles of a row
};
template <int V>
Tiles tiles_of(const BatchNormShape& shape, std::int64_t all_rows) {
    const int groups = shape.channels / V;
    const int lanes = V == 1
                          ? 32
                          : static_cast<int>(std::min(std::bit_ceil(static_cast<unsigned>(groups)),
                                                      static_cast<unsigned>(tile_channels / V)));
    const int rows = norm_threads / lanes, tiles = (groups + lanes - 1) / lanes;
    // What a thread reads of its channels is worth several rows.
    const std::int64_t in_block = (all_rows * tiles + blocks_most - 1) / blocks_most;
    return {
        shape.rows, all_rows, (std::max<std::int64_t>(8 * rows, in_block) + rows - 1) / rows * rows,
        groups,     lanes,    tiles};
}
unsigned blocks_of(const Tiles& t) {
    return static_cast<unsigned>((t.all_rows + t.block_rows - 1) / t.block_rows * t.tiles);
}

std::int64_t sum_blocks(std::int64_t rows) {
    return std::clamp<std::int64_t>((rows + sum_rows_least - 1) / sum_rows_least, 1,
                                    sum_blocks_max);
}

/// The pack of a row that a thread of a block has; its rows are first, first + step, ... below end.
struct Strip {
    int group;
    int first, end, step;
};
GX_DEVICE Strip strip_of(const Tiles& t, std::int64_t rows, unsigned number) {
    const auto tile = static_cast<int>(number % static_cast<unsigned>(t.tiles));
    const std::int64_t block = number / static_cast<unsigned>(t.tiles);
    const auto thread = static_cast<int>(threadIdx.x);
    const std::int64_t begin = block * t.block_rows, end = begin + t.block_rows;
    return {tile * t.lanes + thread % t.lanes, static_cast<int>(begin) + thread / t.lanes,
            static_cast<int>(end < rows ? end : rows), norm_threads / t.lanes};
}

/// Kernels without sums begin at the end of a tensor, which the kernel before has written or read
/// last: that is in the cache. They end at its begin, where the kernel behind begins.
GX_DEVICE unsigned from_the_end() { return gridDim.x - 1 - blockIdx.x; }

/// Of a pack in its tensor.
GX_DEVICE std::int64_t index_of(const Tiles& t, int row, int group) {
    return std::int64_t{row} * t.groups + group;
}

/// Calls load(u, row) for the next rows of a strip, then use(u, row) for each of them, in order, so
/// that their loads are in flight at once. u is a constant of each call: the loop is unrolled.
template <int in_flight, class Load, class Use>
GX_DEVICE void for_rows(const Strip& strip, Load load, Use use) {
    for (int row = strip.first; row < strip.end; row += in_flight * strip.step) {
        GX_UNROLL for (int u = 0; u < in_flight; ++u) {
            if (row + u * strip.step < strip.end) load(u, row + u * strip.step);
        }
        GX_UNROLL for (int u = 0; u < in_flight; ++u) {
            if (row + u * strip.step < strip.end) use(u, row + u * strip.step);
        }
    }
}

// Packs of a thread, loads in flight and blocks at once were chosen by the times of ResNet-50's
// layers on an H100. Sums in double keep the units for double busy: they want many warps, so packs
// of 4, whose sums and norms leave registers for these.

// ---- Sums --------------------------------------------------------------------------------------

/// Of one channel: of x and x * x, or of dy and dy * x. Products of two floats are exact.
template <int V>
struct Sums {
    double first[V] = {}, second[V] = {};
};

/// sums[block, 0 and 1, C] = the sums of the block's threads: those of a warp that have one pack as
/// a tree, the farthest first; then those of the warps, in order.
template <int V>
GX_DEVICE void store_sums(const Tiles& t, Sums<V> mine, DeviceSpan<double> sums) {
    GX_SHARED(double, of_warps, norm_warps * 2 * tile_channels);
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const auto lanes = static_cast<unsigned>(t.lanes);
    GX_UNROLL for (int k = 0; k < V; ++k) {
        for (unsigned by = 16; by >= lanes; by /= 2) {
            mine.first[k] += __shfl_down_sync(all_lanes, mine.first[k], by);
            mine.second[k] += __shfl_down_sync(all_lanes, mine.second[k], by);
        }
        if (lane >= lanes) continue;
        const unsigned at = warp * 2 * tile_channels + lane * V + static_cast<unsigned>(k);
        of_warps[at] = mine.first[k];
        of_warps[at + tile_channels] = mine.second[k];
    }
    GX_SYNC_BLOCK();
    const unsigned c = threadIdx.x % tile_channels, which = threadIdx.x / tile_channels;
    const auto tile = static_cast<int>(blockIdx.x % static_cast<unsigned>(t.tiles));
    const int channel = tile * t.lanes * V + static_cast<int>(c), channels = t.groups * V;
    if (which > 1 || c >= lanes * V || channel >= channels) return;
    double sum = 0;
    for (unsigned w = 0; w < norm_warps; ++w) sum += of_warps[(w * 2 + which) * tile_channels + c];
    const std::int64_t block = blockIdx.x / static_cast<unsigned>(t.tiles);
    sums[(block * 2 + which) * channels + channel] = sum;
}

struct ChannelSums {
    double first, second;
};
/// The sums of all blocks, of channel blockIdx.x * 32 + lane, in warp 0: warp w adds those of
/// blocks w, w + 8 ...; then those of the warps in order.
GX_DEVICE ChannelSums sums_of(DeviceSpan<const double> sums, int channels) {
    GX_SHARED(double, of_warps, norm_warps * 64);
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const std::int64_t channel = std::int64_t{blockIdx.x} * 32 + lane;
    ChannelSums mine{};
    const std::int64_t step = std::int64_t{norm_warps} * 2 * channels;
    constexpr int in_flight = 8;  // there are few threads: they wait for memory
    if (channel < channels)
        for (std::int64_t at = warp * 2 * channels + channel; at < sums.size;
             at += in_flight * step) {
            double first[in_flight] = {}, second[in_flight] = {};  // a sum and 0 is the sum
            GX_UNROLL for (int u = 0; u < in_flight; ++u) {
                if (at + u * step >= sums.size) continue;
                first[u] = sums[at + u * step];
                second[u] = sums[at + u * step + channels];
            }
            GX_UNROLL for (int u = 0; u < in_flight; ++u) {
                mine.first += first[u];
                mine.second += second[u];
            }
        }
    of_warps[warp * 64 + lane] = mine.first;
    of_warps[warp * 64 + 32 + lane] = mine.second;
    GX_SYNC_BLOCK();
    if (warp > 0) return mine;
    for (unsigned w = 1; w < norm_warps; ++w) {
        mine.first += of_warps[w * 64 + lane];
        mine.second += of_warps[w * 64 + 32 + lane];
    }
    return mine;
}

// ---- Forward -----------------------------------------------------------------------------------

template <class E, int V>
GX_KERNEL GX_LAUNCH_BOUNDS(norm_threads, 4)
    moments_kernel(Tiles t, DeviceSpan<const Pack<E, V>> x, DeviceSpan<double> sums) {
    Sums<V> mine;
    const Strip strip = strip_of(t, t.rows, blockIdx.x);
    Pack<E, V> values[2];
    if (strip.group < t.groups)
        for_rows<2>(
            strip, [&](int u, int row) { values[u] = x[index_of(t, row, strip.group)]; },
            [&](int u, int) {
                GX_UNROLL for (int k = 0; k < V; ++k) {
                    const double value = decoded<E>(values[u].v[k]);
                    mine.first[k] += value;
                    mine.second[k] += value * value;
                }
            });
    store_sums(t, mine, sums);
}

GX_DEVICE ChannelNorm norm_of(double mean, double variance, double epsilon, float gamma,
                              float beta) {
    const double inverse = 1 / std::sqrt(variance + epsilon);
    const auto near = static_cast<float>(mean);
    return {
        near,   static_cast<float>(mean - near), static_cast<float>(gamma * inverse), beta, mean,
        inverse};
}

/// What a channel of a batch norm is normalised by, and its running moments, as
/// reference::update_running.
GX_DEVICE void train_norm(std::int64_t c, const ChannelSums& sum, std::int64_t rows, double epsilon,
                          double momentum, DeviceSpan<const float> gamma,
                          DeviceSpan<const float> beta, DeviceSpan<float> running_mean,
                          DeviceSpan<float> running_variance, DeviceSpan<ChannelNorm> norms) {
    const auto count = static_cast<double>(rows > 0 ? rows : 1);
    const double mean = sum.first / count, spread = (sum.second - sum.first * mean) / count;
    const double variance = spread < 0 ? 0 : spread;  // a NaN stays
    norms[c] = norm_of(mean, variance, epsilon, gamma[c], beta[c]);
    if (rows == 0) return;
    const double unbiased = variance * count / (rows > 1 ? count - 1 : 1);
    running_mean[c] = static_cast<float>((1 - momentum) * running_mean[c] + momentum * mean);
    running_variance[c] =
        static_cast<float>((1 - momentum) * running_variance[c] + momentum * unbiased);
}
GX_KERNEL train_norms_kernel(std::int64_t rows, double epsilon, double momentum,
                             DeviceSpan<const double> sums, DeviceSpan<const float> gamma,
                             DeviceSpan<const float> beta, DeviceSpan<float> running_mean,
                             DeviceSpan<float> running_variance, DeviceSpan<ChannelNorm> norms) {
    const ChannelSums sum = sums_of(sums, static_cast<int>(norms.size));
    const std::int64_t c = std::int64_t{blockIdx.x} * 32 + threadIdx.x;
    if (threadIdx.x < 32 && c < norms.size)
        train_norm(c, sum, rows, epsilon, momentum, gamma, beta, running_mean, running_variance,
                   norms);
}
/// By sums that are there.
GX_KERNEL summed_norms_kernel(std::int64_t rows, double epsilon, double momentum,
                              DeviceSpan<const float> sums, DeviceSpan<const float> gamma,
                              DeviceSpan<const float> beta, DeviceSpan<float> running_mean,
                              DeviceSpan<float> running_variance, DeviceSpan<ChannelNorm> norms) {
    for (std::int64_t c = global_thread(); c < norms.size; c += all_threads())
        train_norm(c, {sums[c], sums[norms.size + c]}, rows, epsilon, momentum, gamma, beta,
                   running_mean, running_variance, norms);
}

GX_KERNEL running_norms_kernel(double epsilon, DeviceSpan<const float> gamma,
                               DeviceSpan<const float> beta, DeviceSpan<const float> mean,
                               DeviceSpan<const float> variance, DeviceSpan<ChannelNorm> norms) {
    for (std::int64_t c = global_thread(); c < norms.size; c += all_threads())
        norms[c] = norm_of(mean[c], variance[c], epsilon, gamma[c], beta[c]);
}

template <int V>
struct Lines {
    Line of[V];
};
template <int V>
GX_DEVICE Lines<V> lines_of(DeviceSpan<const ChannelNorm> norms, int group) {
    Lines<V> lines;
    GX_UNROLL for (int k = 0; k < V; ++k) lines.of[k] = line_of(norms[group * V + k]);
    return lines;
}

/// Byte of the mask that holds the bits of a pack, and the first of them.
template <int V>
GX_DEVICE std::int64_t mask_byte(const Tiles& t, int row, int group) {
    if (V > 1) return index_of(t, row, group) * V / 8;  // rows of whole bytes
    return std::int64_t{row} * ((t.groups + 7) / 8) + group / 8;
}
template <int V>
GX_DEVICE int mask_bit(int group) {
    return group * V % 8;
}

/// The residual as it is, or through a batch norm of its own.
struct Unchanged {
    template <class E>
    GX_DEVICE float at(int, float x) const {
        return x;
    }
};
template <int V>
struct Normalised {
    Lines<V> lines;
    template <class E>
    GX_DEVICE float at(int k, float x) const {
        return rounded<E>(lines.of[k](x));
    }
};

template <class E, int V, class Residual>
GX_DEVICE void normalise_strip(const Tiles& t, const Strip& strip, const Lines<V>& lines,
                               const Residual& through, bool relu, DeviceSpan<const Pack<E, V>> x,
                               DeviceSpan<const Pack<E, V>> residual, DeviceSpan<Pack<E, V>> y,
                               DeviceSpan<std::uint8_t> mask) {
    const bool mine = strip.group < t.groups;
    for (int row = strip.first; row < strip.end; row += strip.step) {  // of a whole warp
        const std::int64_t at = index_of(t, row, strip.group);
        Pack<E, V> values{}, added{};
        unsigned positive = 0;
        const bool real = mine && row < t.rows;
        if (real) values = x[at];
        if (real && residual.size > 0) added = residual[at];
        if (real) GX_UNROLL for (int k = 0; k < V; ++k) {
                float v = rounded<E>(lines.of[k](decoded<E>(values.v[k])));
                if (residual.size > 0)
                    v = rounded<E>(v + through.template at<E>(k, decoded<E>(added.v[k])));
                if (v > 0) positive |= 1u << k;
                if (relu && v <= 0) v = 0;  // a NaN stays
                values.v[k] = encoded<E>(v);
            }
        if (mine) y[at] = values;
        if (mask.size == 0 || row >= t.rows) continue;
        if (V == 1) positive = __ballot_sync(all_lanes, positive != 0) >> (threadIdx.x % 32);
        if (mine && (V == 8 || threadIdx.x % 8 == 0))
            mask[mask_byte<V>(t, row, strip.group)] = static_cast<std::uint8_t>(positive);
    }
}

template <class E, int V>
GX_KERNEL normalise_rows_kernel(Tiles t, DeviceSpan<const ChannelNorm> norms, bool relu,
                                DeviceSpan<const Pack<E, V>> x,
                                DeviceSpan<const Pack<E, V>> residual, DeviceSpan<Pack<E, V>> y,
                                DeviceSpan<std::uint8_t> mask) {
    const Strip strip = strip_of(t, t.all_rows, from_the_end());
    Lines<V> lines{};
    if (strip.group < t.groups) lines = lines_of<V>(norms, strip.group);
    normalise_strip<E, V>(t, strip, lines, Unchanged{}, relu, x, residual, y, mask);
}
template <class E, int V>
GX_KERNEL normalise_both_kernel(Tiles t, DeviceSpan<const ChannelNorm> norms,
                                DeviceSpan<const ChannelNorm> residual_norms, bool relu,
                                DeviceSpan<const Pack<E, V>> x,
                                DeviceSpan<const Pack<E, V>> residual, DeviceSpan<Pack<E, V>> y,
                                DeviceSpan<std::uint8_t> mask) {
    const Strip strip = strip_of(t, t.all_rows, from_the_end());
    Lines<V> lines{};
    Normalised<V> through{};
    if (strip.group < t.groups) {
        lines = lines_of<V>(norms, strip.group);
        through.lines = lines_of<V>(residual_norms, strip.group);
    }
    normalise_strip<E, V>(t, strip, lines, through, relu, x, residual, y, mask);
}

// ---- Backward ----------------------------------------------------------------------------------

/// What backward reads of a pack: all of it before any is computed with.
template <class E, int V>
struct BackwardReads {
    Pack<E, V> x, dy, addend;
    unsigned mask;

    GX_DEVICE void load(const Tiles& t, int row, int group, DeviceSpan<const Pack<E, V>> all_x,
                        DeviceSpan<const Pack<E, V>> all_dy, DeviceSpan<const Pack<E, V>> addends,
                        DeviceSpan<const std::uint8_t> masks) {
        const std::int64_t at = index_of(t, row, group);
        x = all_x[at];
        dy = all_dy[at];
        if (addends.size > 0) addend = addends[at];
        if (masks.size > 0) mask = masks[mask_byte<V>(t, row, group)];
    }
    /// Bit k: whether the gradient of element k passes the relu.
    GX_DEVICE unsigned passing(const Lines<V>& lines, int group, bool has_mask) const {
        if (has_mask) return mask >> mask_bit<V>(group);
        unsigned bits = 0;
        GX_UNROLL for (int k = 0; k < V; ++k) {
            if (rounded<E>(lines.of[k](decoded<E>(x.v[k]))) > 0) bits |= 1u << k;
        }
        return bits;
    }
    /// dy, or dy + addend as accumulate() rounds it.
    GX_DEVICE typename E::storage gradient(int k, bool has_addend) const {
        if (!has_addend) return dy.v[k];
        return encoded<E>(decoded<E>(dy.v[k]) + decoded<E>(addend.v[k]));
    }
};

/// Stores what passes the relu where `passed` is not empty.
template <class E, int V>
GX_KERNEL GX_LAUNCH_BOUNDS(norm_threads, 4)
    gradient_sums_kernel(Tiles t, DeviceSpan<const ChannelNorm> norms, bool relu,
                         DeviceSpan<const Pack<E, V>> x, DeviceSpan<const Pack<E, V>> dy,
                         DeviceSpan<const Pack<E, V>> addend, DeviceSpan<const std::uint8_t> mask,
                         DeviceSpan<Pack<E, V>> passed, DeviceSpan<double> sums) {
    Sums<V> mine;
    const Strip strip = strip_of(t, t.rows, blockIdx.x);
    if (strip.group < t.groups) {
        const Lines<V> lines = lines_of<V>(norms, strip.group);
        for (int row = strip.first; row < strip.end; row += strip.step) {
            BackwardReads<E, V> reads;
            reads.load(t, row, strip.group, x, dy, addend, mask);
            const unsigned pass = relu ? reads.passing(lines, strip.group, mask.size > 0) : ~0u;
            Pack<E, V> through{};
            GX_UNROLL for (int k = 0; k < V; ++k) {
                if ((pass >> k & 1u) == 0) continue;
                through.v[k] = reads.gradient(k, addend.size > 0);
                const double d = decoded<E>(through.v[k]);
                mine.first[k] += d;
                mine.second[k] += d * decoded<E>(reads.x.v[k]);
            }
            if (passed.size > 0) passed[index_of(t, row, strip.group)] = through;
        }
    }
    store_sums(t, mine, sums);
}

/// dx = scale * (dy - means[0] - (x - mean) * means[1]). Shapes: means (2, C).
GX_KERNEL gradient_norms_kernel(std::int64_t rows, DeviceSpan<const ChannelNorm> norms,
                                DeviceSpan<const double> sums, DeviceSpan<double> means,
                                DeviceSpan<float> dgamma, DeviceSpan<float> dbeta) {
    const ChannelSums sum = sums_of(sums, static_cast<int>(norms.size));
    const std::int64_t c = std::int64_t{blockIdx.x} * 32 + threadIdx.x;
    if (threadIdx.x >= 32 || c >= norms.size) return;
    const auto count = static_cast<double>(rows > 0 ? rows : 1);
    const ChannelNorm n = norms[c];
    const double projection = (sum.second - sum.first * n.exact_mean) * n.inverse;
    dbeta[c] = static_cast<float>(sum.first);
    dgamma[c] = static_cast<float>(projection);
    means[c] = sum.first / count;
    means[norms.size + c] = projection * n.inverse / count;
}

/// Of `cleared`, which may be empty, the rows that the batch does not have become 0.
template <class E, int V>
GX_KERNEL GX_LAUNCH_BOUNDS(norm_threads, 3)
    input_gradient_kernel(Tiles t, DeviceSpan<const ChannelNorm> norms, bool relu,
                          DeviceSpan<const double> means, DeviceSpan<const Pack<E, V>> x,
                          DeviceSpan<const Pack<E, V>> dy, DeviceSpan<const Pack<E, V>> addend,
                          DeviceSpan<const std::uint8_t> mask, DeviceSpan<Pack<E, V>> dx,
                          DeviceSpan<Pack<E, V>> cleared) {
    const Strip strip = strip_of(t, t.all_rows, from_the_end());
    if (strip.group >= t.groups) return;
    const Lines<V> lines = lines_of<V>(norms, strip.group);
    float first[V], second[V];
    GX_UNROLL for (int k = 0; k < V; ++k) {
        const int c = strip.group * V + k;
        first[k] = static_cast<float>(means[c]);
        second[k] = static_cast<float>(means[norms.size + c]);
    }
    for (int row = strip.first; row < strip.end; row += strip.step) {
        const std::int64_t at = index_of(t, row, strip.group);
        Pack<E, V> to{};
        if (row < t.rows) {
            BackwardReads<E, V> reads;
            reads.load(t, row, strip.group, x, dy, addend, mask);
            const unsigned pass = relu ? reads.passing(lines, strip.group, mask.size > 0) : ~0u;
            GX_UNROLL for (int k = 0; k < V; ++k) {
                const float d =
                    (pass >> k & 1u) != 0 ? decoded<E>(reads.gradient(k, addend.size > 0)) : 0.0f;
                const float h = lines.of[k].centred(decoded<E>(reads.x.v[k]));
                to.v[k] = encoded<E>(lines.of[k].scale * ((d - first[k]) - h * second[k]));
            }
        } else if (cleared.size > 0) {
            cleared[at] = to;
        }
        dx[at] = to;
    }
}

// ---- Host --------------------------------------------------------------------------------------

/// Rows of a buffer.
std::int64_t rows_of(const BatchNormShape& shape, std::int64_t elements) {
    GX_EXPECT(shape.channels > 0 && shape.rows >= 0, "a batch norm has rows of channels");
    GX_EXPECT(elements % shape.channels == 0 && elements / shape.channels >= shape.rows,
              "a batch norm's buffers have whole rows, those of the batch or more");
    GX_EXPECT(elements / shape.channels <= 1 << 30, "a batch norm has at most 2^30 rows");
    return elements / shape.channels;
}
bool fits(std::int64_t optional, std::int64_t elements) {
    return optional == 0 || optional == elements;
}
void expect_parameters(const BatchNormShape& shape, const BatchNormParameters& p,
                       std::int64_t norms) {
    const std::int64_t channels = shape.channels;
    GX_EXPECT(p.gamma.size == channels && p.beta.size == channels && p.mean.size == channels &&
                  p.variance.size == channels && norms == channels,
              "a batch norm has as many parameters, statistics and norms as channels");
}
template <class E>
void expect_maps(const BatchNormShape& shape, const BatchNormMaps<E>& maps) {
    const std::int64_t rows = rows_of(shape, maps.x.size);
    GX_EXPECT(fits(maps.y.size, maps.x.size) && fits(maps.residual.size, maps.x.size),
              "x, y and residual of a batch norm have one length");
    GX_EXPECT(fits(maps.residual_norms.size, shape.channels),
              "a residual has as many norms as channels");
    GX_EXPECT(fits(maps.mask.size, batch_norm_mask_bytes({rows, shape.channels})),
              "a mask has batch_norm_mask_bytes() of its buffer");
}

/// Calls body.operator()<V>() with the elements of a pack: `most` where channels are in eights.
template <int most = 8, class Body>
void with_packs(const BatchNormShape& shape, Body body) {
    if (shape.channels % 8 == 0) body.template operator()<most>();
    else body.template operator()<1>();
}
/// Of kernels of sums, and of the gradient of the input: of fp32, half as many.
template <class E>
inline constexpr int pack_of_sums = sizeof(typename E::storage) == 2 ? 4 : 2;
template <class E>
inline constexpr int pack_of_gradients = 2 * pack_of_sums<E>;

/// The tiles of a kernel of sums, and its part of the scratch memory.
template <int V>
Tiles sum_tiles(const BatchNormShape& shape) {
    Tiles t = tiles_of<V>(shape, shape.rows);
    const std::int64_t blocks = sum_blocks(shape.rows);
    t.block_rows = (shape.rows + blocks - 1) / blocks;
    return t;
}
DeviceSpan<double> sums_in(const BatchNormShape& shape, DeviceSpan<double> scratch) {
    GX_EXPECT(scratch.size >= batch_norm_scratch(shape), "scratch of batch_norm_scratch(shape)");
    return scratch.subspan(0, sum_blocks(shape.rows) * 2 * shape.channels);
}
LaunchShape shape_of_sums(cudaStream_t stream, const BatchNormShape& shape, const Tiles& t) {
    return {static_cast<unsigned>(sum_blocks(shape.rows) * t.tiles), norm_threads, stream};
}
LaunchShape shape_of_channels(cudaStream_t stream, const BatchNormShape& shape) {
    return {static_cast<unsigned>(shape.channels + 31) / 32, norm_threads, stream};
}

template <class E>
void normalise_rows(cudaStream_t stream, const BatchNormShape& shape, const BatchNormMaps<E>& maps,
                    DeviceSpan<const ChannelNorm> norms) {
    if (maps.y.size == 0) return;
    with_packs(shape, [&]<int V> {
        const Tiles t = tiles_of<V>(shape, rows_of(shape, maps.x.size));
        const LaunchShape grid{blocks_of(t), norm_threads, stream};
        const auto x = packs<E, V>(maps.x), residual = packs<E, V>(maps.residual);
        const auto y = packs<E, V>(maps.y);
        if (maps.residual_norms.size == 0)
            launch("normalise rows", grid, normalise_rows_kernel<E, V>, t, norms, maps.relu, x,
                   residual, y, maps.mask);
        else
            launch("normalise both", grid, normalise_both_kernel<E, V>, t, norms,
                   maps.residual_norms, maps.relu, x, residual, y, maps.mask);
    });
}

}  // namespace

std::int64_t batch_norm_scratch(const BatchNormShape& shape) {
    return (sum_blocks(shape.rows) + 1) * 2 * shape.channels;
}

template <class E>
void batch_norm_train(cudaStream_t stream, const BatchNormShape& shape,
                      const BatchNormParameters& parameters, const BatchNormMaps<E>& maps,
                      DeviceSpan<ChannelNorm> norms, DeviceSpan<double> scratch) {
    expect_maps(shape, maps);
    expect_parameters(shape, parameters, norms.size);
    const DeviceSpan<double> sums = sums_in(shape, scratch);
    with_packs<pack_of_sums<E>>(shape, [&]<int V> {
        const Tiles t = sum_tiles<V>(shape);
        launch("moments of blocks", shape_of_sums(stream, shape, t), moments_kernel<E, V>, t,
               packs<E, V>(maps.x), sums);
    });
    launch("norms of a batch", shape_of_channels(stream, shape), train_norms_kernel, shape.rows,
           parameters.epsilon, parameters.momentum, sums, parameters.gamma, parameters.beta,
           parameters.mean, parameters.variance, norms);
    normalise_rows(stream, shape, maps, norms);
}

template <class E>
void batch_norm_train(cudaStream_t stream, const BatchNormShape& shape,
                      const BatchNormParameters& parameters, const BatchNormMaps<E>& maps,
                      DeviceSpan<ChannelNorm> norms, DeviceSpan<const float> sums) {
    expect_maps(shape, maps);
    expect_parameters(shape, parameters, norms.size);
    GX_EXPECT(sums.size == 2 * norms.size, "a batch norm has two sums of each channel");
    launch("norms of sums", {shape_of_channels(stream, shape).blocks, 32, stream},
           summed_norms_kernel, shape.rows, parameters.epsilon, parameters.momentum, sums,
           parameters.gamma, parameters.beta, parameters.mean, parameters.variance, norms);
    normalise_rows(stream, shape, maps, norms);
}

template <class E>
void batch_norm_evaluate(cudaStream_t stream, const BatchNormShape& shape,
                         const BatchNormParameters& parameters, const BatchNormMaps<E>& maps,
                         DeviceSpan<ChannelNorm> norms) {
    expect_maps(shape, maps);
    expect_parameters(shape, parameters, norms.size);
    launch("running norms", {shape_of_channels(stream, shape).blocks, 32, stream},
           running_norms_kernel, parameters.epsilon, parameters.gamma, parameters.beta,
           parameters.mean, parameters.variance, norms);
    normalise_rows(stream, shape, maps, norms);
}

template <class E>
void batch_norm_backward(cudaStream_t stream, const BatchNormShape& shape,
                         DeviceSpan<const ChannelNorm> norms, const BatchNormGradients<E>& maps,
                         DeviceSpan<double> scratch) {
    const std::int64_t rows = rows_of(shape, maps.x.size);
    GX_EXPECT(maps.dy.size == maps.x.size && maps.dx.size == maps.x.size &&
                  fits(maps.addend.size, maps.x.size) &&
                  fits(maps.residual_gradient.size, maps.x.size),
              "x and the gradients of a batch norm's tensors have one length");
    GX_EXPECT(fits(maps.mask.size, batch_norm_mask_bytes({rows, shape.channels})),
              "a mask has batch_norm_mask_bytes() of its buffer");
    GX_EXPECT(!maps.relu || maps.residual_gradient.size == 0 || maps.mask.size > 0 || rows == 0,
              "a relu behind a residual needs the mask of forward");
    GX_EXPECT(norms.size == shape.channels && maps.dgamma.size == shape.channels &&
                  maps.dbeta.size == shape.channels,
              "a batch norm has as many norms and gradients of parameters as channels");
    const DeviceSpan<double> sums = sums_in(shape, scratch);
    const DeviceSpan<double> means = scratch.subspan(sums.size, std::int64_t{2} * shape.channels);
    with_packs<pack_of_sums<E>>(shape, [&]<int V> {
        const Tiles t = sum_tiles<V>(shape);
        launch("gradient sums of blocks", shape_of_sums(stream, shape, t),
               gradient_sums_kernel<E, V>, t, norms, maps.relu, packs<E, V>(maps.x),
               packs<E, V>(maps.dy), packs<E, V>(maps.addend), maps.mask,
               packs<E, V>(maps.residual_gradient), sums);
    });
    launch("gradient norms", shape_of_channels(stream, shape), gradient_norms_kernel, shape.rows,
           norms, sums, means, maps.dgamma, maps.dbeta);
    BatchNormGradients<E> of_input = maps;
    if (maps.residual_gradient.size > 0) {  // what passes the relu is there
        of_input.dy = maps.residual_gradient;
        of_input.addend = {};
        of_input.relu = false;
        of_input.mask = {};
        if (rows == shape.rows) of_input.residual_gradient = {};  // no tail to clear
    }
    with_packs<pack_of_gradients<E>>(shape, [&]<int V> {
        const Tiles t = tiles_of<V>(shape, rows);
        launch("gradient of the input", {blocks_of(t), norm_threads, stream},
               input_gradient_kernel<E, V>, t, norms, of_input.relu, means, packs<E, V>(maps.x),
               packs<E, V>(of_input.dy), packs<E, V>(of_input.addend), of_input.mask,
               packs<E, V>(maps.dx), packs<E, V>(of_input.residual_gradient));
    });
}

#define GX_BATCH_NORM(E)                                                                      \
    template void batch_norm_train<E>(cudaStream_t, const BatchNormShape&,                    \
                                      const BatchNormParameters&, const BatchNormMaps<E>&,    \
                                      DeviceSpan<ChannelNorm>, DeviceSpan<double>);           \
    template void batch_norm_train<E>(cudaStream_t, const BatchNormShape&,                    \
                                      const BatchNormParameters&, const BatchNormMaps<E>&,    \
                                      DeviceSpan<ChannelNorm>, DeviceSpan<const float>);      \
    template void batch_norm_evaluate<E>(cudaStream_t, const BatchNormShape&,                 \
                                         const BatchNormParameters&, const BatchNormMaps<E>&, \
                                         DeviceSpan<ChannelNorm>);                            \
    template void batch_norm_backward<E>(cudaStream_t, const BatchNormShape&,                 \
                                         DeviceSpan<const ChannelNorm>,                       \
                                         const BatchNormGradients<E>&, DeviceSpan<double>);
GX_BATCH_NORM(fp32)
GX_BATCH_NORM(fp16)
GX_BATCH_NORM(bf16)

}  // namespace gx::cuda
