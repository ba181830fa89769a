// find_gpu: a GPU by the name that people write, as "V100-SXM2-16GB" or "K80 (one die)".
#pragma once

#include <algorithm>    // find
#include <array>        // all GPUs
#include <string>       // words
#include <string_view>  // names
#include <vector>       // words

#include <gx/core/error.hpp>    // Error
#include <gx/core/nearest.hpp>  // unknown_name
#include <gx/sim/gpus.hpp>      // k80 ... h200

namespace gx::sim {

/// All GPUs that find_gpu knows; the plain form of a family before its others.
inline constexpr std::array gpus{
    k80(),         p100(),      p100_pcie(),     p40(),           gtx_1080_ti(), titan_x_pascal(),
    v100(),        v100_32gb(), v100_pcie(),     v100_sxm3(),     v100_sxm3_h(), a100_40gb(),
    a100_80gb(),   a100_pcie_40gb(), a100_pcie_80gb(), h100(),    h100_pcie(),   h200()};

namespace detail::find_gpu {

/// Lower-case runs of letters and digits.
[[nodiscard]] inline std::vector<std::string> words(std::string_view text) {
    std::vector<std::string> all(1);
    for (const char c : text) {
        const char l = 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        const bool word = ('a' <= l && l <= 'z') || ('0' <= l && l <= '9');
        if (word) all.back() += l;
        if (!word && !all.back().empty()) all.emplace_back();
    }
    if (all.back().empty()) all.pop_back();
    return all;
}

/// Other spellings of a word, and machines whose name settles the form of their GPU.
struct Alias {
    std::string_view written, means;
};
inline constexpr std::array<Alias, 13> aliases{{{"gk210", "k80"},
                                                {"1080ti", "1080"},
                                                {"titanx", "titan"},
                                                {"minsky", "sxm2"},
                                                {"basin", "sxm2"},
                                                {"p3dn", "32gb"},
                                                {"sxm", ""},
                                                {"p4d", "40gb"},
                                                {"p4de", "80gb"},
                                                {"c4140", "sxm2"},
                                                {"2", "sxm3"},
                                                {"2h", "h"},
                                                {"pascal", "p100"}}};

/// What a query says of a GPU's form and memory; other words ("server", "8") say nothing.
[[nodiscard]] inline bool tells(std::string_view word) {
    constexpr std::array<std::string_view, 12> known{"sxm2", "sxm3", "sxm4", "sxm5",
                                                     "pcie", "16gb", "32gb", "40gb",
                                                     "80gb", "12gb", "141gb", "h"};
    return std::find(known.begin(), known.end(), word) != known.end();
}

inline constexpr std::array<std::string_view, 9> families{"K80",  "P100", "P40",  "1080", "Titan",
                                                          "V100", "A100", "H100", "H200"};

/// Letters of the family, the first word of a name that is no maker's.
[[nodiscard]] inline std::string family(const std::vector<std::string>& name) {
    return name[0] == "gtx" ? name[1] : name[0];
}

}  // namespace detail::find_gpu

/// The GPU whose family `name` says, in the form and with the memory that it says; what it does not
/// say is as in the family's first of `gpus`. Makers, brands, machines and remarks are passed over:
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
    if (says("pascal") && !says("sxm2") && !says("titan")) said.push_back("pcie");
    for (std::string& word : said)
        for (const d::Alias& a : d::aliases)
            if (word == a.written && (dgx || a.written[0] != '2')) word = std::string(a.means);
    if (says("p100") && says("titan")) said.erase(std::find(said.begin(), said.end(), "p100"));
    std::vector<std::string_view> all, kin;
    for (const GpuSpec& gpu : gpus) {
        all.push_back(gpu.name);
        const std::vector<std::string> own = d::words(gpu.name);
        if (!says(d::family(own))) continue;
        kin.push_back(gpu.name);
        bool fits = true;
        for (const std::string& word : said)
            fits = fits && (!d::tells(word) ||
                            std::find(own.begin(), own.end(), word) != own.end());
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
