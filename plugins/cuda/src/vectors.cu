// Scale, copy, fill, and normalised images.
#include <gx/cuda/kernels.hpp>

#include <gx/cuda/error.hpp>  // expect

#include "arithmetic.hpp"
#include "elementwise.hpp"

namespace gx::cuda {
namespace {

struct Scale {
    float factor;
    constexpr float operator()(float x) const { return product_of(x, factor); }
};
struct Copy {
    template <class T>
    constexpr T operator()(T x) const {
        return x;
    }
};
GX_KERNEL swap_if_kernel(DeviceSpan<const Flag> condition, DeviceSpan<float> a,
                         DeviceSpan<float> b) {
    if (condition[0] == 0) return;
    for (std::int64_t i = global_thread(); i < a.size; i += all_threads()) {
        const float was = a[i];
        a[i] = b[i];
        b[i] = was;
    }
}
template <class T>
struct Fill {
    T value;
    constexpr T operator()() const { return value; }
};

template <class E>
GX_KERNEL normalise_kernel(PixelShape shape, ImageLayout layout,
                           DeviceSpan<const std::uint8_t> pixels, DeviceSpan<const float> values,
                           DeviceSpan<typename E::storage> to) {
    for (std::int64_t i = global_thread(); i < to.size; i += all_threads()) {
        std::int64_t from = i, channel = i / shape.pixels % shape.channels;
        if (layout == ImageLayout::channels_last) {  // i = (image * pixels + pixel) * channels + c
            const std::int64_t at = i / shape.channels;
            channel = i % shape.channels;
            from =
                (at / shape.pixels * shape.channels + channel) * shape.pixels + at % shape.pixels;
        }
        to[i] = E::encode(values[channel * 256 + pixels[from]]);
    }
}

}  // namespace

void scale(cudaStream_t stream, DeviceSpan<float> values, float factor) {
    GX_EXPECT(factor == factor, "a factor of NaN: scale by a number");
    apply(stream, "scale", Scale{factor}, values, values);
}
template <class T>
void copy(cudaStream_t stream, DeviceSpan<const T> from, DeviceSpan<T> to) {
    apply(stream, "copy", Copy{}, to, from);
}
void copy_bytes(cudaStream_t stream, const void* from, std::int64_t from_bytes, void* to,
                std::int64_t to_bytes) {
    GX_EXPECT(from_bytes == to_bytes, "a copy fills as many bytes as it reads");
    const auto copy = [&] {
        return cudaMemcpyAsync(to, from, static_cast<std::size_t>(to_bytes),
                               cudaMemcpyDeviceToDevice, stream);
    };
    expect(queued_call("cudaMemcpyAsync", copy, stream, from, to, to_bytes),
           "cudaMemcpyAsync within the device");
}
void swap_if(cudaStream_t stream, DeviceSpan<const Flag> condition, DeviceSpan<float> a,
             DeviceSpan<float> b) {
    GX_EXPECT(condition.size == 1 && a.size == b.size, "one condition and vectors of one length");
    launch("swap if", grid_for(stream, a.size), swap_if_kernel, condition, a, b);
}
template <class T>
void fill(cudaStream_t stream, DeviceSpan<T> to, T value) {
    apply(stream, "fill", Fill<T>{value}, to);
}
template <class E>
void normalise(cudaStream_t stream, PixelShape shape, ImageLayout layout,
               DeviceSpan<const std::uint8_t> pixels, DeviceSpan<const float> values,
               DeviceSpan<typename E::storage> to) {
    GX_EXPECT(pixels.size == shape.images * shape.channels * shape.pixels && to.size == pixels.size,
              "pixels and images are as many as the shape says");
    GX_EXPECT(values.size == std::int64_t{shape.channels} * 256, "256 values a channel");
    launch("normalise", grid_for(stream, to.size), normalise_kernel<E>, shape, layout, pixels,
           values, to);
}

template void copy(cudaStream_t, DeviceSpan<const float>, DeviceSpan<float>);
template void copy(cudaStream_t, DeviceSpan<const std::uint16_t>, DeviceSpan<std::uint16_t>);
template void fill(cudaStream_t, DeviceSpan<float>, float);
template void fill(cudaStream_t, DeviceSpan<double>, double);
template void fill(cudaStream_t, DeviceSpan<std::uint16_t>, std::uint16_t);
template void fill(cudaStream_t, DeviceSpan<unsigned long long>, unsigned long long);
#define GX_NORMALISE(E)                                                                 \
    template void normalise<E>(cudaStream_t, PixelShape, ImageLayout,                   \
                               DeviceSpan<const std::uint8_t>, DeviceSpan<const float>, \
                               DeviceSpan<E::storage>);
GX_NORMALISE(fp32)
GX_NORMALISE(fp16)
GX_NORMALISE(bf16)

}  // namespace gx::cuda
