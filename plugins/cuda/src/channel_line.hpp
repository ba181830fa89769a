// Line: what of a ChannelNorm each element needs.
#pragma once

#include <gx/cuda/kernel.hpp>         // GX_DEVICE
#include <gx/cuda/layer_kernels.hpp>  // ChannelNorm

namespace gx::cuda {

struct Line {
    float mean, mean_rest, scale, shift;
    GX_DEVICE float centred(float x) const { return (x - mean) - mean_rest; }
    GX_DEVICE float operator()(float x) const { return centred(x) * scale + shift; }
};
GX_DEVICE Line line_of(const ChannelNorm& n) { return {n.mean, n.mean_rest, n.scale, n.shift}; }

}  // namespace gx::cuda
