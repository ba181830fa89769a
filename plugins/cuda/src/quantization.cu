// Blocks of integers with one step: what Quantized sends and receives.
#include <gx/cuda/kernels.hpp>

#include <bit>  // bit_cast

#include <gx/core/contract.hpp>           // GX_EXPECT
#include <gx/cuda/kernel.hpp>             // GX_KERNEL, launch
#include <gx/reducer/block_rounding.hpp>  // BlockRounding

#include "block_sum.hpp"

namespace gx::cuda {
namespace {

template <int Bits>
using Rounding = gx::detail::quantized::BlockRounding<Bits>;
constexpr unsigned block_values = Rounding<8>::block_values;
static_assert(block_values == reduction_threads && block_values == grid_threads,
              "a thread for each value of a block");
constexpr float quiet_nan = std::bit_cast<float>(0x7fc00000u);

/// The largest of a block's values, in each thread.
GX_DEVICE std::uint32_t block_max(std::uint32_t v) {
    GX_SHARED(std::uint32_t, largest, block_warps);
    for (int by = 16; by > 0; by /= 2) {
        const std::uint32_t other = __shfl_xor_sync(all_lanes, v, by);
        v = v < other ? other : v;
    }
    if (threadIdx.x % 32 == 0) largest[threadIdx.x / 32] = v;
    GX_SYNC_BLOCK();
    for (int w = 0; w < block_warps; ++w) {
        const std::uint32_t other = largest[w];
        v = v < other ? other : v;
    }
    GX_SYNC_BLOCK();  // the next call writes largest
    return v;
}

template <int Bits>
GX_KERNEL quantize_kernel(DeviceSpan<const std::uint64_t> gradient, DeviceSpan<const float> values,
                          std::int64_t offset, GradientDraws from, DeviceSpan<std::byte> out) {
    const Rng draws = from.stream.at(gradient[0]).at(from.substream);
    for (std::int64_t b = blockIdx.x; b * block_values < values.size; b += gridDim.x) {
        const std::int64_t i = b * block_values + threadIdx.x;
        const bool inside = i < values.size;
        const float x = inside ? values[i] : 0;
        const float step =
            Rounding<Bits>::step_of_bits(block_max(std::bit_cast<std::uint32_t>(x) & 0x7fffffffu));
        int code = 0;
        if (step > 0 && inside) {  // not zero, not NaN
            const auto at = static_cast<std::uint64_t>(offset + i);
            const auto four = draws.bits(at / 4);
            const std::uint32_t low = at % 2 == 0 ? four[0] : four[1],
                                high = at % 2 == 0 ? four[2] : four[3];
            code = Rounding<Bits>::round(double{x} / double{step}, at % 4 < 2 ? low : high);
        }
        const int next = __shfl_down_sync(all_lanes, code, 1);
        const std::int64_t message = b * static_cast<std::int64_t>(Rounding<Bits>::block_bytes);
        if (threadIdx.x < 4)  // messages may lie at any byte
            out[message + threadIdx.x] = static_cast<std::byte>(
                std::bit_cast<std::uint32_t>(step) >> (8 * threadIdx.x) & 255u);
        if (!inside) continue;
        if (Bits == 8) out[message + 4 + threadIdx.x] = static_cast<std::byte>(code & 255);
        else if (threadIdx.x % 2 == 0)
            out[message + 4 + threadIdx.x / 2] =
                static_cast<std::byte>((code + 8) | (next + 8) << 4);
    }
}

GX_KERNEL count_gradients_kernel(DeviceSpan<std::uint64_t> number, std::uint64_t more) {
    number[0] = number[0] + more;
}

struct Code {
    float step;
    int code;
};
/// Of value i of the message that begins at byte `begin`.
template <int Bits>
GX_DEVICE Code code_at(DeviceSpan<const std::byte> bytes, std::int64_t begin, std::int64_t i) {
    const std::int64_t block =
        begin + i / block_values * static_cast<std::int64_t>(Rounding<Bits>::block_bytes);
    std::uint32_t step = 0;
    for (int k = 0; k < 4; ++k) step |= static_cast<std::uint32_t>(bytes[block + k]) << (8 * k);
    const auto t = static_cast<int>(i % block_values);
    if (Bits == 8)
        return {std::bit_cast<float>(step), static_cast<std::int8_t>(bytes[block + 4 + t])};
    const int both = static_cast<int>(bytes[block + 4 + t / 2]);
    return {std::bit_cast<float>(step), (t % 2 == 0 ? both & 15 : both >> 4) - 8};
}

template <int Bits>
GX_KERNEL dequantize_kernel(DeviceSpan<const std::byte> message, DeviceSpan<float> values) {
    for (std::int64_t i = global_thread(); i < values.size; i += all_threads()) {
        const Code c = code_at<Bits>(message, 0, i);
        values[i] = c.step != c.step ? quiet_nan : c.step * static_cast<float>(c.code);
    }
}

// Products are exact in double, so fused or not gives the same bits.
template <int Bits>
GX_KERNEL average_kernel(DeviceSpan<const std::byte> messages, std::int64_t longest, int ranks,
                         DeviceSpan<float> chunk) {
    for (std::int64_t i = global_thread(); i < chunk.size; i += all_threads()) {
        double sum = 0;
        for (int r = 0; r < ranks; ++r) {
            const Code c = code_at<Bits>(messages, r * longest, i);
            sum += double{c.step} * c.code;
        }
        chunk[i] = sum != sum ? quiet_nan : static_cast<float>(sum / ranks);
    }
}

template <int Bits>
std::int64_t bytes_of(std::int64_t values) {
    return static_cast<std::int64_t>(Rounding<Bits>::bytes(static_cast<std::size_t>(values)));
}

}  // namespace

void count_gradients(cudaStream_t stream, DeviceSpan<std::uint64_t> number, std::uint64_t more) {
    GX_EXPECT(number.size == 1, "one number of a gradient");
    launch("count gradients", {1, 1, stream}, count_gradients_kernel, number, more);
}
template <int Bits>
void quantize(cudaStream_t stream, DeviceSpan<const std::uint64_t> gradient,
              DeviceSpan<const float> values, std::int64_t offset, const GradientDraws& draws,
              DeviceSpan<std::byte> out) {
    GX_EXPECT(gradient.size == 1, "one number of a gradient");
    GX_EXPECT(out.size == bytes_of<Bits>(values.size), "a message of bytes(values) bytes");
    launch("quantize", grid_for(stream, values.size), quantize_kernel<Bits>, gradient, values,
           offset, draws, out);
}
template <int Bits>
void dequantize(cudaStream_t stream, DeviceSpan<const std::byte> message,
                DeviceSpan<float> values) {
    GX_EXPECT(message.size == bytes_of<Bits>(values.size), "a message of bytes(values) bytes");
    launch("dequantize", grid_for(stream, values.size), dequantize_kernel<Bits>, message, values);
}
template <int Bits>
void average_quantized(cudaStream_t stream, DeviceSpan<const std::byte> messages,
                       std::int64_t longest, int ranks, DeviceSpan<float> chunk) {
    GX_EXPECT(ranks > 0 && bytes_of<Bits>(chunk.size) <= longest &&
                  messages.size >= (ranks - 1) * longest + bytes_of<Bits>(chunk.size),
              "a message of the chunk from each rank");
    launch("average messages", grid_for(stream, chunk.size), average_kernel<Bits>, messages,
           longest, ranks, chunk);
}

#define GX_QUANTIZED_OF(Bits)                                                                      \
    template void quantize<Bits>(cudaStream_t, DeviceSpan<const std::uint64_t>,                    \
                                 DeviceSpan<const float>, std::int64_t, const GradientDraws&,      \
                                 DeviceSpan<std::byte>);                                           \
    template void dequantize<Bits>(cudaStream_t, DeviceSpan<const std::byte>, DeviceSpan<float>);  \
    template void average_quantized<Bits>(cudaStream_t, DeviceSpan<const std::byte>, std::int64_t, \
                                          int, DeviceSpan<float>);
GX_QUANTIZED_OF(8)
GX_QUANTIZED_OF(4)

}  // namespace gx::cuda
