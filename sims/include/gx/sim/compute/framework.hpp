// Framework: which kernels a framework makes of a graph's operations.
#pragma once

#include <algorithm>    // search
#include <string_view>  // names

#include <gx/core/units.hpp>  // Nanoseconds

namespace gx::sim {

/// What a framework makes of a graph's operations.
struct Framework {
    /// Elementwise layers run with the kernels before them, and all updates in one kernel. ReLU and
    /// residual add run with the batch norm before them, GELU and dropout with the product before
    /// them, attention's dropout with its softmax. Otherwise each is a kernel, and so is the update
    /// of each parameter.
    bool fused = true;
    /// Images as channels, rows, columns, where tensor cores want the channels last.
    bool channels_first = false;
    Nanoseconds dispatch{};  ///< beyond the GPU's launch, from one kernel to the next
};

/// NVIDIA's MXNet and TensorFlow of 2019 and later, OneFlow, entries of MLPerf.
inline constexpr Framework fused_kernels{};
/// A kernel for each operation.
/// Source: dispatch is what is left of the rates of ResNet-50 at batches of 1 to 128 on K80, P100
///         and V100 (MXNet's and TensorFlow's tables); see `gx_calibrate`.
inline constexpr Framework separate_kernels{.fused = false, .dispatch = Nanoseconds(20'000)};
/// As released until about 2020, on images of channels first; in fp32 the same as above.
inline constexpr Framework channels_first_kernels{
    .fused = false, .channels_first = true, .dispatch = Nanoseconds(20'000)};

/// What a published result's framework made of its graph, as far as its name tells:
/// "MXNet 20.12 container + Horovod", "TensorFlow 1.3 + Horovod", "PyTorch 1.4 DDP". Upper and
/// lower case are the same.
[[nodiscard]] constexpr Framework framework_of(std::string_view name) {
    const auto lower = [](char c) {
        return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    const auto same = [&](char a, char b) { return lower(a) == b; };
    const auto says = [&](std::string_view word) {
        return std::search(name.begin(), name.end(), word.begin(), word.end(), same) != name.end();
    };
    if (says("oneflow") || says("lars") || says("xla")) return fused_kernels;
    if (!says("container")) return channels_first_kernels;
    return says("mxnet") || says("tensorflow 20") || says("tensorflow 2.") ? fused_kernels
                                                                           : separate_kernels;
}

}  // namespace gx::sim
