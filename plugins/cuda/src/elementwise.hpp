// apply: a kernel that writes f of the i-th elements of its spans, for all i.
#pragma once

#include <algorithm>    // max
#include <cstdint>      // int64_t
#include <type_traits>  // remove_const_t

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/cuda/kernel.hpp>    // GX_KERNEL, launch

#include "packs.hpp"

namespace gx::cuda {

template <class F, class To, int V, class... From>
GX_DEVICE Elements<To, V> of_each(const F& f, Elements<From, V>... x) {
    Elements<To, V> y;
    GX_UNROLL for (int k = 0; k < V; ++k) y.v[k] = f(x.v[k]...);
    return y;
}

/// V elements a thread, and those behind the last V of them one by one.
template <int V, class F, class To, class... From>
GX_KERNEL apply_kernel(F f, DeviceSpan<To> to, DeviceSpan<const From>... from) {
    const std::int64_t packed = to.size / V, single = packed * V;
    for (std::int64_t i = global_thread(); i < packed; i += all_threads())
        elements<V>(to)[i] = of_each<F, To, V, From...>(f, elements<V>(from)[i]...);
    if constexpr (V > 1)
        for (std::int64_t i = single + global_thread(); i < to.size; i += all_threads())
            to[i] = f(from[i]...);
}

/// to[i] = f(from[i]...); `to` may be one of `from`.
/// Shapes: spans of one length.
/// Cost:   each span is read or written once: 16 bytes a thread at a time of the widest elements
///         where all spans are aligned to such packs, else one element.
template <class F, class To, class... From>
void apply(cudaStream_t stream, const char* name, F f, DeviceSpan<To> to,
           DeviceSpan<From>... from) {
    GX_EXPECT((... && (from.size == to.size)), "a kernel's spans have one length");
    constexpr int V = static_cast<int>(16 / std::max({sizeof(To), sizeof(From)...}));
    const auto run = [&]<int N>(void (*kernel)(F, DeviceSpan<To>,
                                               DeviceSpan<const std::remove_const_t<From>>...)) {
        launch(name, grid_for(stream, (to.size + N - 1) / N), kernel, f, to, from...);
    };
    if ((is_aligned<V>(to) && ... && is_aligned<V>(from)))
        return run.template operator()<V>(apply_kernel<V, F, To, std::remove_const_t<From>...>);
    run.template operator()<1>(apply_kernel<1, F, To, std::remove_const_t<From>...>);
}

}  // namespace gx::cuda
