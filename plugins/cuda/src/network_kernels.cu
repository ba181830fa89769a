// Flatten, copies of channels, rounding, and the check of activations.
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
    launch("flatten", grid_for(stream, to.size), transpose_kernel<T>, rows, columns, from, to);
}

template <class T>
struct alignas(16) Word {
    T v[16 / sizeof(T)];
};
/// Of both sides: elements of a row, and where the copied ones begin.
struct ChannelRows {
    std::int64_t count, from_row, from_first, to_row, to_first;
};
template <class W>
GX_KERNEL copy_channels_kernel(ChannelRows rows, std::int64_t all, DeviceSpan<const W> from,
                               DeviceSpan<W> to) {
    for (std::int64_t i = global_thread(); i < all; i += all_threads()) {
        const std::int64_t row = i / rows.count, c = i % rows.count;
        to[row * rows.to_row + rows.to_first + c] = from[row * rows.from_row + rows.from_first + c];
    }
}
template <class W, class T>
void copy_words(cudaStream_t stream, std::int64_t count, const ChannelsFrom<const T>& from,
                const ChannelsFrom<T>& to) {
    constexpr std::int64_t in_word = sizeof(W) / sizeof(T);
    const ChannelRows rows{count / in_word, from.channels / in_word, from.first / in_word,
                           to.channels / in_word, to.first / in_word};
    const std::int64_t all = to.maps.size / to.channels * rows.count;
    launch(
        "copy channels", grid_for(stream, all), copy_channels_kernel<W>, rows, all,
        DeviceSpan<const W>{reinterpret_cast<const W*>(from.maps.data), from.maps.size / in_word},
        DeviceSpan<W>{reinterpret_cast<W*>(to.maps.data), to.maps.size / in_word});
}

template <class E>
struct Round {
    constexpr float operator()(float x) const { return E::decode(E::encode(x)); }
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
template <class T>
void copy_channels(cudaStream_t stream, std::int64_t count, const ChannelsFrom<const T>& from,
                   const ChannelsFrom<T>& to) {
    const auto has = [&](const auto& side) {
        return count > 0 && side.first >= 0 && side.first + count <= side.channels &&
               side.maps.size % side.channels == 0;
    };
    GX_EXPECT(has(from) && has(to) && from.maps.size / from.channels == to.maps.size / to.channels,
              "both sides of a copy of channels have them, of one number of pixels");
    constexpr std::int64_t in_word = sizeof(Word<T>) / sizeof(T);
    const std::int64_t sizes = count | from.channels | from.first | to.channels | to.first;
    if (sizes % in_word == 0) return copy_words<Word<T>>(stream, count, from, to);
    copy_words<T>(stream, count, from, to);
}
template <class E>
void round_to(cudaStream_t stream, DeviceSpan<float> values) {
    apply(stream, "round", Round<E>{}, values, values);
}
template <class E>
void check_activations(cudaStream_t stream, DeviceSpan<const ForwardReport> report, int images,
                       DeviceSpan<const CheckedActivation> activations,
                       DeviceSpan<const typename E::storage> arena,
                       DeviceSpan<const ChannelNorm> norms, DeviceSpan<std::uint32_t> counts,
                       DeviceSpan<std::uint32_t> found) {
    GX_EXPECT(report.size == 1 && found.size == 1 && counts.size == activations.size,
              "a report, and a count for each activation");
    launch("check activations", {256, grid_threads, stream}, check_kernel<E>, report, images,
           activations, arena, norms, found, counts);
    launch("activations were checked", {1, 1, stream}, found_kernel, report, found);
}

#define GX_FLATTEN_OF(T)                                                                  \
    template void channels_to_front(cudaStream_t, const PixelShape&, DeviceSpan<const T>, \
                                    DeviceSpan<T>);                                       \
    template void channels_to_back(cudaStream_t, const PixelShape&, DeviceSpan<const T>,  \
                                   DeviceSpan<T>);                                        \
    template void copy_channels(cudaStream_t, std::int64_t, const ChannelsFrom<const T>&, \
                                const ChannelsFrom<T>&);
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
