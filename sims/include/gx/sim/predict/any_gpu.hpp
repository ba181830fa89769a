// any_gpu: a GPU by name, or the known one that is nearest to it.
#pragma once

#include <array>        // the tables
#include <string>       // remarks
#include <string_view>  // names
#include <vector>       // remarks

#include <fmt/core.h>  // format

#include <gx/core/error.hpp>          // Error
#include <gx/sim/find_gpu.hpp>        // find_gpu
#include <gx/sim/gpu.hpp>             // GpuSpec
#include <gx/sim/predict/units.hpp>   // lower, has

namespace gx::sim::predict {

/// An accelerator without a model of its own: one of its years and class, and its own memory speed.
struct StandIn {
    std::string_view word;   ///< of its name, in lower case
    std::string_view taken;  ///< of gx::sim::known_gpus
    double gb_s;             ///< of memory
};

/// Source: the makers' data sheets; of boards with two dies (MI250), one.
inline constexpr std::array<StandIn, 56> stand_ins{
    {{"titan rtx", "RTX 2080 Ti", 672}, {"rtx titan", "RTX 2080 Ti", 672}, {"titan", "K40", 288},
     {"k20", "K20X", 208},       {"k20m", "K20X", 208},      {"k20c", "K20X", 208},
     {"m2090", "K20X", 178},     {"580", "K20X", 192},       {"780", "K40", 288},
     {"970", "GTX 980 Ti", 196}, {"980", "GTX 980 Ti", 224}, {"m6000", "M40", 317},
     {"1060", "GTX 1080", 192},  {"1070", "GTX 1080", 256},  {"p4", "P40", 192},
     {"p6000", "P40", 432},      {"p5000", "P40", 288},      {"gp100", "P100", 717},
     {"gv100", "V100-32GB", 870}, {"2060", "RTX 2080 Ti", 336}, {"2070", "RTX 2080 Ti", 448},
     {"2080", "RTX 2080 Ti", 448}, {"5000", "RTX 2080 Ti", 448}, {"8000", "RTX 2080 Ti", 672},
     {"6000 ada", "L40S", 960},  {"6000", "RTX 2080 Ti", 672}, {"a10", "A10G", 600},
     {"3060", "RTX 3090", 360},  {"3070", "RTX 3090", 448},  {"3080", "RTX 3090", 760},
     {"3080ti", "RTX 3090", 912}, {"a4000", "RTX A6000", 448}, {"a4500", "RTX A6000", 640},
     {"a5000", "RTX A6000", 768}, {"a5500", "RTX A6000", 768}, {"l40", "L40S", 864},
     {"4070", "L40S", 504},      {"4080", "L40S", 717},      {"4090", "L40S", 1008},
     {"5090", "L40S", 1792},     {"h20", "H100", 4000},      {"gh200", "H100", 4000},
     {"b100", "B200", 8000},     {"b300", "B200", 8000},     {"gb300", "B200", 8000},
     {"mi50", "V100", 1024},     {"mi60", "V100", 1024},     {"mi100", "V100", 1229},
     {"mi210", "A100", 1638},    {"mi250", "A100", 1638},    {"mi250x", "A100", 1638},
     {"mi300x", "H100", 5300},   {"mi300", "H100", 5300},    {"dgx-1p", "P100", 732},
     {"dgx-2", "V100-SXM3-32GB", 900}, {"dgx-1", "V100", 900}}};

namespace detail {

/// Whether a name is so: of two words or with a hyphen, written so; else one of its words.
[[nodiscard]] inline bool is_called(std::string_view written, std::string_view word) {
    const std::string text = lower(written);
    if (word.find_first_of(" -") != word.npos) return has(text, word);
    for (const std::string& w : sim::detail::find_gpu::words(written))
        if (w == word) return true;
    return false;
}
/// Whether the text says no more than that it does not know: "not stated", "NVIDIA GPU".
[[nodiscard]] inline bool says_no_gpu(std::string_view written) {
    const std::string text = lower(written);
    return has(text, "not stated") || has(text, "unknown") || has(text, "not published") ||
           text == "gpu" || text == "nvidia gpu" || text == "nvidia gpus";
}

}  // namespace detail

/// find_gpu; where that knows none, a stand-in, which `remarks` tell: a V100 where none is said.
/// Errors: gx::Error of find_gpu, with the nearest names, for a name in neither.
[[nodiscard]] inline GpuSpec any_gpu(std::string_view written, std::vector<std::string>& remarks) {
    if (detail::says_no_gpu(written)) {
        remarks.emplace_back("GPU not stated: V100 assumed");
        return find_gpu("V100");
    }
    try {
        return find_gpu(written);
    } catch (const Error&) {
        for (const StandIn& s : stand_ins) {
            if (!detail::is_called(written, s.word)) continue;
            GpuSpec gpu = find_gpu(s.taken);
            gpu.memory_bandwidth = {s.gb_s * 1e9};
            remarks.push_back(fmt::format("GPU '{}': taken as {} with memory of {} GB/s", written,
                                          gpu.name.view(), s.gb_s));
            return gpu;
        }
        throw;
    }
}

}  // namespace gx::sim::predict
