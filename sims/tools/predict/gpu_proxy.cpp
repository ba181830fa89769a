#include <tools/predict/gpu_proxy.hpp>

#include <fmt/core.h>  // format

#include <gx/core/error.hpp>            // Error
#include <gx/sim/catalog/find_gpu.hpp>  // find_gpu
#include <tools/common/json.hpp>        // parse_json
#include <tools/common/text.hpp>        // lower, has
#include <tools/data.hpp>               // gpu_proxies

namespace gx::tools::predict {

namespace {

/// Whether `word` is in a name: as written if it has a blank or hyphen, else as one of the words.
bool is_called(std::string_view written, std::string_view word) {
    const std::string text = lower(written);
    if (word.find_first_of(" -") != word.npos) return has(text, word);
    for (const std::string& w : sim::detail::find_gpu::words(written))
        if (w == word) return true;
    return false;
}
/// Whether the text names no GPU: "not stated", "NVIDIA GPU".
bool states_no_gpu(std::string_view written) {
    const std::string text = lower(written);
    return has(text, "not stated") || has(text, "unknown") || has(text, "not published") ||
           text == "gpu" || text == "nvidia gpu" || text == "nvidia gpus";
}

}  // namespace

const std::vector<GpuProxy>& gpu_proxies() {
    static const std::vector<GpuProxy> all = [] {
        std::vector<GpuProxy> rows;
        const Json file = parse_json(data::gpu_proxies, "gpu_proxies.json");
        for (const Json& row : file.at("proxies"))
            rows.push_back({row.at("word").get<std::string>(), row.at("proxy").get<std::string>(),
                            row.at("memory_gb_per_s").get<double>()});
        return rows;
    }();
    return all;
}

sim::GpuSpec gpu_or_proxy(std::string_view written, std::vector<std::string>& remarks) {
    if (states_no_gpu(written)) {
        remarks.emplace_back("GPU not stated: V100 assumed");
        return sim::find_gpu("V100");
    }
    try {
        return sim::find_gpu(written);
    } catch (const Error&) {
        for (const GpuProxy& p : gpu_proxies()) {
            if (!is_called(written, p.word)) continue;
            sim::GpuSpec gpu = sim::find_gpu(p.proxy);
            gpu.memory_bandwidth = {p.memory_gb_per_s * 1e9};
            remarks.push_back(fmt::format("GPU '{}': taken as {} with memory of {} GB/s", written,
                                          gpu.name.view(), p.memory_gb_per_s));
            return gpu;
        }
        throw;
    }
}

}  // namespace gx::tools::predict
