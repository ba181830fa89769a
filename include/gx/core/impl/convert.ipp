// The conversions between the elements of gx, once.
#pragma once

#include <gx/core/convert.hpp>  // the declarations

#if defined(GX_COMPILED)
#define GX_CONVERSION(from, to, combining)                                                 \
    template void                                                                          \
    gx::detail::convert::run<gx::from, gx::to, gx::detail::convert::Combining::combining>( \
        std::span<const gx::from::storage>, std::span<gx::to::storage>, float, gx::Simd);
GX_CONVERSIONS(GX_CONVERSION)
#undef GX_CONVERSION
#endif
