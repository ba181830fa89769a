// Flatten, rounding, and the check of activations.
#include "network_kernels.hpp"

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/core/element.hpp>   // fp32, fp16, bf16

#include "channel_line.hpp"
#include "elementwise.hpp"
#include "packs.hpp"

namespace gx::cuda {
namespace {

/// to[image, j, i] = from[image, i, j], where j counts to `columns`.
template <class T>
GX_KERNEL transpose_kernel(std::int64_t rows, std::int64_t columns, DeviceSpan<const T> from,
                           DeviceSpan<T> to) {
    for (std::int64_t k = global_thread(); k < to.size; k += all_threads()) {
        const std::int64_t image = k / (rows * columns), in_image = k % (rows * columns);
        to[k] = from[image * rows * columns + in_image % rows * columns + in_image / rows];
    }
}
template <class T>
void transpose(cudaStream_t stream, std::int64_t rows, std::int64_t columns,
               DeviceSpan<const T> from, DeviceSpan<T> to) {
    GX_EXPECT(from.size == to.size && to.size % (rows * columns) == 0,
              "a flatten has as many elements as it reads, of whole images");
    const std::int64_t blocks = (to.size + elementwise_threads - 1) / elementwise_threads;
    launch("flatten",
           {static_cast<unsigned>(std::min<std::int64_t>(blocks, elementwise_blocks_max)),
            elementwise_threads, stream},
           transpose_kernel<T>, rows, columns, from, to);
}

template <class E>
struct Round {
    constexpr void operator()(float& x) const { x = E::decode(E::encode(x)); }
};

template <class E>
GX_KERNEL check_kernel(DeviceSpan<const ForwardReport> report, int images,
                       DeviceSpan<const CheckedActivation> activations,
                       DeviceSpan<const typename E::storage> arena,
                       DeviceSpan<const ChannelNorm> norms, DeviceSpan<const std::uint32_t> found,
                       DeviceSpan<std::uint32_t> counts) {
    const bool finite = report[0].finite;
    if (finite || found[0] != 0) return;
    for (std::int64_t a = 0; a < activations.size; ++a) {
        const CheckedActivation at = activations[a];
        for (std::int64_t i = global_thread(); i < images * at.count_per_image;
             i += all_threads()) {
            float x = decoded<E>(arena[at.first + i]);
            if (at.channels > 0) x = rounded<E>(line_of(norms[at.first_norm + i % at.channels])(x));
            if (x - x != 0) atomicAdd(&counts[a], 1u);
        }
    }
}
GX_KERNEL found_kernel(DeviceSpan<const ForwardReport> report, DeviceSpan<std::uint32_t> found) {
    const bool finite = report[0].finite;
    if (!finite) found[0] = 1;
}

}  // namespace

template <class T>
void channels_to_front(cudaStream_t stream, const PixelShape& shape, DeviceSpan<const T> from,
                       DeviceSpan<T> to) {
    transpose(stream, shape.pixels, shape.channels, from, to);
}
template <class T>
void channels_to_back(cudaStream_t stream, const PixelShape& shape, DeviceSpan<const T> from,
                      DeviceSpan<T> to) {
    transpose(stream, shape.channels, shape.pixels, from, to);
}
template <class E>
void round_to(cudaStream_t stream, DeviceSpan<float> values) {
    apply(stream, "round", Round<E>{}, values);
}
template <class E>
void check_activations(cudaStream_t stream, DeviceSpan<const ForwardReport> report, int images,
                       DeviceSpan<const CheckedActivation> activations,
                       DeviceSpan<const typename E::storage> arena,
                       DeviceSpan<const ChannelNorm> norms, DeviceSpan<std::uint32_t> counts,
                       DeviceSpan<std::uint32_t> found) {
    GX_EXPECT(report.size == 1 && found.size == 1 && counts.size == activations.size,
              "a report, and a count for each activation");
    launch("check activations", {256, elementwise_threads, stream}, check_kernel<E>, report, images,
           activations, arena, norms, found, counts);
    launch("activations were checked", {1, 1, stream}, found_kernel, report, found);
}

#define GX_FLATTEN_OF(T)                                                                  \
    template void channels_to_front(cudaStream_t, const PixelShape&, DeviceSpan<const T>, \
                                    DeviceSpan<T>);                                       \
    template void channels_to_back(cudaStream_t, const PixelShape&, DeviceSpan<const T>,  \
                                   DeviceSpan<T>);
GX_FLATTEN_OF(float)
GX_FLATTEN_OF(std::uint16_t)
#define GX_CHECK_OF(E)                                                                           \
    template void check_activations<E>(                                                          \
        cudaStream_t, DeviceSpan<const ForwardReport>, int, DeviceSpan<const CheckedActivation>, \
        DeviceSpan<const E::storage>, DeviceSpan<const ChannelNorm>, DeviceSpan<std::uint32_t>,  \
        DeviceSpan<std::uint32_t>);
GX_CHECK_OF(fp32)
GX_CHECK_OF(fp16)
GX_CHECK_OF(bf16)
template void round_to<fp16>(cudaStream_t, DeviceSpan<float>);
template void round_to<bf16>(cudaStream_t, DeviceSpan<float>);

}  // namespace gx::cuda
