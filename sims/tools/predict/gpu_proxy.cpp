#include <tools/predict/gpu_proxy.hpp>

#include <algorithm>  // any_of, find

#include <fmt/core.h>  // format

#include <gx/core/error.hpp>            // Error
#include <gx/sim/catalog/find_gpu.hpp>  // find_gpu
#include <tools/common/json.hpp>        // parse_json
#include <tools/common/text.hpp>        // lower, has, denies
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
/// The families of known GPUs that a text names, each once, in the catalog's order.
std::vector<std::string> families_in(std::string_view written) {
    std::vector<std::string> named;
    const std::vector<std::string> said = sim::detail::find_gpu::words(written);
    for (const sim::GpuSpec& gpu : sim::known_gpus) {
        const std::string family = sim::detail::find_gpu::words(gpu.name)[0];
        if (std::find(said.begin(), said.end(), family) != said.end() &&
            std::find(named.begin(), named.end(), family) == named.end())
            named.push_back(family);
    }
    return named;
}
/// Whether the text names no GPU: "", "not stated", "NVIDIA GPU"; not "A100 (40 or 80 GB, not
/// stated which)".
bool states_no_gpu(std::string_view written) {
    const std::string text = lower(written);
    for (const char* none : {"", "-", "n/a", "tbd", "unspecified", "not specified", "not known",
                             "gpu", "gpus", "nvidia gpu", "nvidia gpus"})
        if (text == none) return true;
    if (!has(text, "not stated") && !has(text, "unknown") && !has(text, "not published") &&
        !has(text, "not named"))
        return false;
    return families_in(written).empty() &&
           std::ranges::none_of(gpu_proxies(),
                                [&](const GpuProxy& p) { return is_called(written, p.word); });
}

/// "V100" of "V100s": several; "V100S" and "L40s" are names.
std::string without_plural(std::string_view written) {
    std::string out;
    for (std::size_t i = 0; i < written.size(); ++i) {
        const bool ends = i + 1 == written.size() ||
                          std::string_view(" ,;)-/").find(written[i + 1]) != std::string_view::npos;
        const bool plural = written[i] == 's' && ends && i > 0 && '0' <= written[i - 1] &&
                            written[i - 1] <= '9' && !lower(written.substr(0, i)).ends_with("l40");
        if (!plural) out += written[i];
    }
    return out;
}
/// Errors: gx::Error for GPUs of two families, for one that is only denied, and for an A2, whose
///         name is also that of a machine.
void check_families(std::string_view written) {
    const std::vector<std::string> named = families_in(written);
    const std::string text = lower(written);
    const bool stated = std::ranges::any_of(
        named, [&](const std::string& family) { return !denies(text, family); });
    if (named.size() > 1 || (named.size() == 1 && !stated))
        throw Error("'" + std::string(written) + "' " +
                    (stated ? "names several GPUs" : "names only a GPU that it is not") +
                    ": name the one that was measured, and make a case of each");
    const std::vector<std::string> said = sim::detail::find_gpu::words(written);
    const bool a2 = std::find(said.begin(), said.end(), "a2") != said.end();
    if (a2 && named.empty() && !has(text, "a2-"))
        throw Error("unknown GPU '" + std::string(written) +
                    "': name one as A100, or Google's machine as a2-highgpu-8g");
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

sim::GpuSpec gpu_or_proxy(std::string_view text, std::vector<std::string>& remarks) {
    const std::string written = without_plural(text);
    if (states_no_gpu(written)) {
        remarks.emplace_back("GPU not stated: V100 assumed");
        return sim::find_gpu("V100");
    }
    check_families(written);
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
