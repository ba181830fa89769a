// gpu_or_proxy: a GPU by name, or the known one that is nearest to it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <gx/sim/hardware/gpu.hpp>  // GpuSpec

namespace gx::tools::predict {

/// A GPU without a model of its own: a known one of its years and class, and its own memory speed.
struct GpuProxy {
    std::string word{};   ///< of its name, in lower case
    std::string proxy{};  ///< of gx::sim::known_gpus
    double memory_gb_per_s = 0;
};

/// The rows of data/gpu_proxies.json; the first that matches a name counts.
[[nodiscard]] const std::vector<GpuProxy>& gpu_proxies();

/// find_gpu; where that knows none, a proxy, named in `remarks`; a V100 where no GPU is stated.
/// Errors: gx::Error of find_gpu, with the nearest names, for a name in neither.
[[nodiscard]] sim::GpuSpec gpu_or_proxy(std::string_view written,
                                        std::vector<std::string>& remarks);

}  // namespace gx::tools::predict
