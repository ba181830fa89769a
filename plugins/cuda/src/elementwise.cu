// ReLU, its gradient, and sums of two maps.
#include <gx/cuda/layer_kernels.hpp>

#include <gx/core/element.hpp>  // fp32, fp16, bf16

#include "elementwise.hpp"
#include "packs.hpp"

namespace gx::cuda {
namespace {

/// As reference::relu: a NaN stays, and -0 becomes 0.
template <class E>
struct Relu {
    GX_DEVICE typename E::storage operator()(typename E::storage x) const {
        return decoded<E>(x) <= 0 ? typename E::storage{} : x;
    }
};
template <class E>
struct ReluGradient {
    GX_DEVICE typename E::storage operator()(typename E::storage dy, typename E::storage y) const {
        return decoded<E>(y) > 0 ? dy : typename E::storage{};
    }
};
/// A float has at least twice the digits of fp16 and two more: rounding to it first changes none.
template <class E>
struct Sum {
    GX_DEVICE typename E::storage operator()(typename E::storage a, typename E::storage b) const {
        return encoded<E>(decoded<E>(a) + decoded<E>(b));
    }
};

}  // namespace

template <class E>
void relu(cudaStream_t stream, DeviceSpan<const typename E::storage> x,
          DeviceSpan<typename E::storage> y) {
    apply(stream, "relu", Relu<E>{}, y, x);
}
template <class E>
void relu_backward(cudaStream_t stream, DeviceSpan<const typename E::storage> dy,
                   DeviceSpan<const typename E::storage> y, DeviceSpan<typename E::storage> dx) {
    apply(stream, "gradient of relu", ReluGradient<E>{}, dx, dy, y);
}
template <class E>
void add_maps(cudaStream_t stream, DeviceSpan<const typename E::storage> a,
              DeviceSpan<const typename E::storage> b, DeviceSpan<typename E::storage> y) {
    apply(stream, "add maps", Sum<E>{}, y, a, b);
}

#define GX_ELEMENTWISE_OF(E)                                                                   \
    template void relu<E>(cudaStream_t, DeviceSpan<const E::storage>, DeviceSpan<E::storage>); \
    template void relu_backward<E>(cudaStream_t, DeviceSpan<const E::storage>,                 \
                                   DeviceSpan<const E::storage>, DeviceSpan<E::storage>);      \
    template void add_maps<E>(cudaStream_t, DeviceSpan<const E::storage>,                      \
                              DeviceSpan<const E::storage>, DeviceSpan<E::storage>);
GX_ELEMENTWISE_OF(fp32)
GX_ELEMENTWISE_OF(fp16)
GX_ELEMENTWISE_OF(bf16)

}  // namespace gx::cuda
