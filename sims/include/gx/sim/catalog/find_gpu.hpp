// find_gpu: a GPU by any usual name, as "V100-SXM2-16GB" or "K80 (one die)".
#pragma once

#include <algorithm>    // all_of, any_of, find
#include <array>        // all GPUs
#include <string>       // words
#include <string_view>  // names
#include <vector>       // words

#include <gx/core/error.hpp>                  // Error
#include <gx/io/nearest.hpp>                  // unknown_name
#include <gx/sim/catalog/gpus_datasheet.hpp>  // data_sheet_gpus
#include <gx/sim/catalog/gpus.hpp>            // calibrated_gpus

namespace gx::sim {

/// All GPUs that find_gpu knows; the plain form of a family before its others.
inline constexpr std::array known_gpus = [] {
    std::array<GpuSpec, calibrated_gpus.size() + data_sheet_gpus.size()> all{};
    std::size_t i = 0;
    for (const GpuRow& row : calibrated_gpus) all[i++] = row.spec();
    for (const GpuRow& row : data_sheet_gpus) all[i++] = row.spec();
    return all;
}();

namespace detail::find_gpu {

/// Lower-case runs of letters and digits, with what belongs to a family's name joined to it:
/// "GTX 1080 Ti", "GTX1080Ti" and "1080Ti" are "1080ti"; "Titan X (Maxwell)" is "titanxm".
[[nodiscard]] inline std::vector<std::string> words(std::string_view text) {
    std::vector<std::string> all(1), joined;
    for (const char c : text) {
        const char l = 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        const bool word = ('a' <= l && l <= 'z') || ('0' <= l && l <= '9');
        if (word) all.back() += l;
        if (!word && !all.back().empty()) all.emplace_back();
    }
    if (all.back().empty()) all.pop_back();
    for (std::string& word : all) {
        if (word.starts_with("gtx") || word.starts_with("rtx")) word.erase(0, 3);
        if (word.empty()) continue;
        const bool titan = !joined.empty() && joined.back() == "titan";
        const bool number = !joined.empty() && joined.back().size() > 2 &&
                            joined.back().find_first_not_of("0123456789") == std::string::npos;
        if ((titan && (word == "x" || word == "xp" || word == "v")) || (number && word == "ti"))
            joined.back() += word;
        else joined.push_back(word);
    }
    for (std::string& word : joined)
        if (word == "titanx" && std::find(joined.begin(), joined.end(), "maxwell") != joined.end())
            word = "titanxm";
    return joined;
}

/// Other spellings of a word, and machines whose name settles the form of their GPU.
struct Alias {
    std::string_view written, means;
};
inline constexpr std::array<Alias, 17> aliases{{{"gk210", "k80"},
                                                {"k40m", "k40"},
                                                {"k40c", "k40"},
                                                {"gb200", "b200"},
                                                {"minsky", "sxm2"},
                                                {"basin", "sxm2"},
                                                {"p3dn", "32gb"},
                                                {"nd40rs", "32gb"},
                                                {"daint", "pcie"},
                                                {"sxm", ""},
                                                {"hgx", ""},
                                                {"nvl", "pcie"},
                                                {"p4d", "40gb"},
                                                {"p4de", "80gb"},
                                                {"c4140", "sxm2"},
                                                {"2", "sxm3"},
                                                {"2h", "h"}}};

/// The GPU of a machine or generation, where no family is named beside it.
inline constexpr std::array<Alias, 24> machine_gpus{
    {{"p2", "k80"},     {"p3", "v100"},     {"p3dn", "v100"},   {"p4d", "a100"},
     {"p4de", "a100"},  {"p5", "h100"},     {"p5en", "h200"},   {"g3", "m60"},
     {"g4dn", "t4"},    {"g5", "a10g"},     {"g6", "l4"},       {"a2", "a100"},
     {"a3", "h100"},    {"nc24rs", "v100"}, {"nd40rs", "v100"}, {"nd96asr", "a100"},
     {"daint", "p100"}, {"summit", "v100"}, {"pascal", "p100"}, {"volta", "v100"},
     {"turing", "t4"},  {"ampere", "a100"}, {"hopper", "h100"}, {"blackwell", "b200"}}};

/// Whether a word is part of a GPU's name, its memory size, or a form that its name omits.
[[nodiscard]] inline bool matches(const GpuSpec& gpu, const std::vector<std::string>& own,
                                  const std::string& word) {
    if (std::find(own.begin(), own.end(), word) != own.end()) return true;
    const auto form = [](const std::string& w) { return w.starts_with("sxm") || w == "pcie"; };
    if (word == "pcie") return std::none_of(own.begin(), own.end(), form);
    return word == std::to_string(gpu.memory.count / 1'000'000'000) + "gb";
}

/// Whether a word names a GPU's form or memory size; others ("server", "8") are ignored.
[[nodiscard]] inline bool is_form_or_memory(std::string_view word) {
    constexpr std::array<std::string_view, 12> known{"sxm2", "sxm3", "sxm4",  "sxm5",
                                                     "pcie", "16gb", "32gb",  "40gb",
                                                     "80gb", "12gb", "141gb", "h"};
    return std::find(known.begin(), known.end(), word) != known.end();
}

inline constexpr std::array<std::string_view, 12> families{
    "K40", "K80", "P100", "P40", "1080", "Titan", "V100", "T4", "A100", "H100", "H200", "B200"};

/// The family, the first word of a name; makers and brands are no part of one.
[[nodiscard]] inline std::string family(const std::vector<std::string>& name) { return name[0]; }

}  // namespace detail::find_gpu

/// Whether a name, as "NVIDIA A100-SXM4-40GB", has the family of the GPU. Where the name has a form
/// or a memory size, these are the GPU's, too.
[[nodiscard]] inline bool names_gpu(std::string_view name, const GpuSpec& gpu) {
    namespace d = detail::find_gpu;
    const std::vector<std::string> said = d::words(name), own = d::words(gpu.name);
    const auto fits = [&](const std::string& word) {
        return !d::is_form_or_memory(word) || d::matches(gpu, own, word);
    };
    return !own.empty() && std::ranges::find(said, d::family(own)) != said.end() &&
           std::ranges::all_of(said, fits);
}

/// The known GPU of a name's family, form and memory size; what the name omits is as in the
/// family's first of `known_gpus`. Makers, brands, machines and remarks are ignored:
/// "Tesla V100", "NVIDIA A100 80GB PCIe", "K80 (one die)", "V100-SXM3-32GB (DGX-2H)".
/// Errors: gx::Error when no family is named, with the nearest names; when the family has no such
///         form or memory, with those that it has.
[[nodiscard]] inline GpuSpec find_gpu(std::string_view name) {
    namespace d = detail::find_gpu;
    std::vector<std::string> said = d::words(name);
    const auto says = [&](std::string_view word) {
        return std::find(said.begin(), said.end(), word) != said.end();
    };
    const bool dgx = says("dgx");
    // Servers of the Pascal years that do not say more held P100s on PCIe.
    const bool pascal = says("pascal") && !says("sxm2");
    const std::vector<std::string> written = said;
    for (std::string& word : said)
        for (const d::Alias& a : d::aliases)
            if (word == a.written && (dgx || a.written[0] != '2')) word = std::string(a.means);
    const auto named = [&] {
        return std::any_of(known_gpus.begin(), known_gpus.end(),
                           [&](const GpuSpec& gpu) { return says(d::family(d::words(gpu.name))); });
    };
    if (!named()) {
        for (const std::string& word : written)
            for (const d::Alias& a : d::machine_gpus)
                if (word == a.written && !named()) said.emplace_back(a.means);
        if (pascal) said.emplace_back("pcie");
    }
    std::vector<std::string_view> all, kin;
    for (const GpuSpec& gpu : known_gpus) {
        all.push_back(gpu.name);
        const std::vector<std::string> own = d::words(gpu.name);
        if (!says(d::family(own))) continue;
        kin.push_back(gpu.name);
        bool fits = true;
        for (const std::string& word : said)
            fits = fits && (!d::is_form_or_memory(word) || d::matches(gpu, own, word));
        if (fits) return gpu;
    }
    if (kin.empty()) {
        for (const std::string& word : said)
            if (!nearest_name(word, d::families).empty())
                throw Error(unknown_name("GPU", word, d::families));
        throw Error(unknown_name("GPU", name, all));
    }
    std::string sentence = "no GPU '" + std::string(name) + "' is known: of its family there are ";
    for (std::size_t i = 0; i < kin.size(); ++i)
        sentence += (i > 0 ? ", " : "") + std::string(kin[i]);
    throw Error(sentence);
}

}  // namespace gx::sim
